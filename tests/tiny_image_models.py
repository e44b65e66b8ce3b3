"""A tiny random model of images and text, saved as a real model folder."""

from tests.tiny_models import tokenizer_of

CHAT = (
    "{% for message in messages %}<|{{ message['role'] }}|>"
    "{% for part in message['content'] %}{{ '<image>' if part['type'] == 'image' else part['text'] }}{% endfor %}</s>\n"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def build_image_model(folder, *, seed=0):
    """Save a LLaVA of two layers, whose pictures are four tokens each."""
    import torch
    import transformers

    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    tokenizer = tokenizer_of(bos=False)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<image>"]})
    image_token = tokenizer.convert_tokens_to_ids("<image>")
    vision = transformers.CLIPVisionConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, image_size=16, patch_size=8
    )
    text = transformers.LlamaConfig(
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=12,
        max_position_embeddings=128,
        initializer_range=0.2,
        vocab_size=len(tokenizer),
        bos_token_id=0,
        eos_token_id=1,
    )
    config = transformers.LlavaConfig(
        vision_config=vision, text_config=text, image_token_id=image_token, vision_feature_layer=-1
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = transformers.LlavaForConditionalGeneration(config)
        for parameter in model.model.multi_modal_projector.parameters():  # so that a picture makes a difference
            parameter.data.mul_(20)
    processor = transformers.LlavaProcessor(
        image_processor=transformers.CLIPImageProcessorPil(
            size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16}
        ),
        tokenizer=tokenizer,
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=CHAT,
    )
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder
