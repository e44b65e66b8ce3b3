"""What every part of kshot shares: records, errors, tasks, protocols, the engine, the registry."""
