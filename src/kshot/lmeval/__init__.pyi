from kshot.lmeval.task_file import TaskFile as TaskFile, load as load
