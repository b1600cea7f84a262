"""A model of random weights, small enough to be made anew: model.py FOLDER [gguf | safetensors]

Its tokenizer is a byte-level BPE, trained on Python's own library. Without a second argument there
are no weights: a simulated engine reads none.
"""
import glob
import json
import os
import struct
import sys
import sysconfig

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

folder, form = sys.argv[1], (sys.argv[2:] or ["none"])[0]
os.makedirs(folder, exist_ok=True)

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
WIDTH, HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD = 128, 256, 2, 2, 1, 64

tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
texts = sorted(glob.glob(os.path.join(sysconfig.get_paths()["stdlib"], "*.py")))[:150]
trainer = trainers.BpeTrainer(
    vocab_size=4096,
    special_tokens=SPECIAL,
    initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    show_progress=False,
)
tokenizer.train(texts, trainer)
tokenizer.save(os.path.join(folder, "tokenizer.json"))
vocabulary = tokenizer.get_vocab()
words = len(vocabulary)

with open(os.path.join(folder, "tokenizer_config.json"), "w") as file:
    json.dump(
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": SPECIAL[0],
            "eos_token": SPECIAL[2],
            "pad_token": SPECIAL[0],
            "model_max_length": 32768,
            "chat_template": TEMPLATE,
        },
        file,
    )
with open(os.path.join(folder, "config.json"), "w") as file:
    json.dump(
        {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "vocab_size": words,
            "hidden_size": WIDTH,
            "intermediate_size": HIDDEN,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS,
            "num_key_value_heads": KV_HEADS,
            "head_dim": HEAD,
            "max_position_embeddings": 32768,
            "rms_norm_eps": 1e-5,
            "rope_theta": 10000.0,
            "hidden_act": "silu",
            "tie_word_embeddings": True,
            "torch_dtype": "bfloat16",
            "bos_token_id": 0,
            "eos_token_id": 2,
            "pad_token_id": 0,
        },
        file,
    )


def shapes():
    """Names of the weights, as Hugging Face and as GGUF have them."""
    yield "model.embed_tokens.weight", "token_embd.weight", (words, WIDTH)
    yield "model.norm.weight", "output_norm.weight", (WIDTH,)
    for layer in range(LAYERS):
        hf, gg = f"model.layers.{layer}.", f"blk.{layer}."
        yield hf + "input_layernorm.weight", gg + "attn_norm.weight", (WIDTH,)
        yield hf + "post_attention_layernorm.weight", gg + "ffn_norm.weight", (WIDTH,)
        yield hf + "self_attn.q_proj.weight", gg + "attn_q.weight", (HEADS * HEAD, WIDTH)
        yield hf + "self_attn.k_proj.weight", gg + "attn_k.weight", (KV_HEADS * HEAD, WIDTH)
        yield hf + "self_attn.v_proj.weight", gg + "attn_v.weight", (KV_HEADS * HEAD, WIDTH)
        yield hf + "self_attn.o_proj.weight", gg + "attn_output.weight", (WIDTH, HEADS * HEAD)
        yield hf + "mlp.gate_proj.weight", gg + "ffn_gate.weight", (HIDDEN, WIDTH)
        yield hf + "mlp.up_proj.weight", gg + "ffn_up.weight", (HIDDEN, WIDTH)
        yield hf + "mlp.down_proj.weight", gg + "ffn_down.weight", (WIDTH, HIDDEN)


def weights():
    import numpy

    random = numpy.random.default_rng(0)
    for hf, gg, shape in shapes():
        if len(shape) == 1:
            yield hf, gg, numpy.ones(shape, numpy.float32)
        else:
            yield hf, gg, (random.standard_normal(shape) * 0.05).astype(numpy.float32)


if form == "safetensors":
    head, data = {}, b""
    for hf, _, values in weights():
        # bfloat16 is the upper half of float32.
        part = (values.view("uint32") >> 16).astype("uint16").tobytes()
        offsets = [len(data), len(data) + len(part)]
        head[hf] = {"dtype": "BF16", "shape": list(values.shape), "data_offsets": offsets}
        data += part
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)

if form == "gguf":
    import gguf

    merges = json.load(open(os.path.join(folder, "tokenizer.json")))["model"]["merges"]
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in merges]
    tokens = sorted(vocabulary, key=vocabulary.get)
    kinds = [
        gguf.TokenType.CONTROL if token in SPECIAL else gguf.TokenType.NORMAL for token in tokens
    ]
    writer = gguf.GGUFWriter(os.path.join(folder, "model.gguf"), "llama")
    writer.add_context_length(32768)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(HEAD)
    writer.add_vocab_size(words)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)
    for _, gg, values in weights():
        writer.add_tensor(gg, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
