"""The datasets on the hub that stand for a loader's folder where there is none."""

from __future__ import annotations

HUB: dict[str, tuple[str, str | None]] = {
    "GSM8KDataset": ("openai/gsm8k", "main"),
    "ARCDataset": ("allenai/ai2_arc", "ARC-Challenge"),
    "MMLUDataset": ("cais/mmlu", None),
    "RaceDataset": ("ehovy/race", None),
    **dict.fromkeys(("BoolQDataset", "BoolQDatasetV2"), ("google/boolq", None)),
    **dict.fromkeys(
        ("WinograndeDataset", "WinograndeDatasetV2", "WinograndeDatasetV3"), ("allenai/winogrande", "winogrande_xl")
    ),
    **dict.fromkeys(
        ("HellaswagDataset", "HellaswagDataset_V2", "HellaswagDatasetwithICE"),
        ("Rowan/hellaswag", None),
    ),
    "OBQADataset": ("allenai/openbookqa", "main"),
    "commonsenseqaDataset": ("tau/commonsense_qa", None),
    "HumanevalDataset": ("openai/openai_humaneval", None),
}
"""A dataset and its subset; loaders change its rows to their own columns."""
