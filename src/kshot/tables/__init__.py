"""Reading rows: json, jsonl, csv, parquet, folders, the hub."""
