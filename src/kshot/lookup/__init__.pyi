from kshot.lookup.prompt_writer import prompts as prompts
