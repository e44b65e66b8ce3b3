from kshot.backends.making import (
    MODELS as MODELS,
    check_deterministic as check_deterministic,
    model_packages as model_packages,
    names_search_engine as names_search_engine,
    open_model as open_model,
)
