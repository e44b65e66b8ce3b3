from kshot.datasets.dataset import Dataset as Dataset
from kshot.datasets.generation import GenerationDataset as GenerationDataset
from kshot.datasets.multiple_choice import MultipleChoiceDataset as MultipleChoiceDataset
from kshot.tables.files import load_raw_dataset_from_file as load_raw_dataset_from_file
from kshot.tables.loading import get_raw_dataset_loader as get_raw_dataset_loader
