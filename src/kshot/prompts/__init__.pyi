from kshot.prompts.strings import (
    compile_string as compile_string,
    decode_escapes as decode_escapes,
    jinja_environment as jinja_environment,
)
