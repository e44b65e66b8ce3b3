"""What everything speaks of: records, errors, tasks, protocols, the engine, the registry."""
