"""Write the ONNX graph of a Hugging Face Llama folder into it: ``python training/embedded/export.py FOLDER``.

``FOLDER/model.onnx`` is only the graph: its weights are ONNX external data inside ``FOLDER/model.safetensors``, fp16,
which onnxruntime turns into fp32 once, when it loads the file. So onnxruntime and transformers read the same numbers.
The same folder gives the same bytes.

Inputs   tokens [B, T], position_ids [B, T], mask [B, P + T] (1: a real token), past [layers, 2, B, heads, P, width],
         wanted [B, S]: the places among the T at which logits are needed (the last layer is computed only there)
Outputs  logits [B, S, vocabulary], present [layers, 2, B, heads, P + T, width]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WEIGHTS = "model.safetensors"


def external_tensors(folder: Path) -> dict[str, onnx.TensorProto]:
    """Return the tensors of a safetensors file by name, each as a reference into that file."""
    data = (folder / WEIGHTS).read_bytes()
    size = int.from_bytes(data[:8], "little")
    found = {}
    for name, entry in json.loads(data[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        if entry["dtype"] != "F16":
            raise SystemExit(f"{name} is {entry['dtype']}; the weights must be F16")
        start, end = entry["data_offsets"]
        tensor = onnx.TensorProto(name=name, dims=entry["shape"], data_type=TensorProto.FLOAT16)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", WEIGHTS), ("offset", 8 + size + start), ("length", end - start)):
            tensor.external_data.add(key=key, value=str(value))
        found[name] = tensor
    return found


class Graph:
    """A graph under construction; every method returns the name of its output."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.named: dict[str, str] = {}

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node."""
        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def const(self, values: object, dtype: type = np.int64) -> str:
        """Add a constant once."""
        array: np.ndarray = np.asarray(values, dtype)
        key = f"c_{array.dtype}_{array.shape}_{array.tolist()}"
        if key not in self.named:
            self.named[key] = f"const_{len(self.named)}"
            self.constants.append(numpy_helper.from_array(array, self.named[key]))
        return self.named[key]

    def weight(self, tensor: onnx.TensorProto, *, transposed: bool = False) -> str:
        """Add an fp16 tensor of the checkpoint as an fp32 value; onnxruntime casts and transposes it when it loads."""
        name = tensor.name
        key = f"w_{name}_{transposed}"
        if key not in self.named:
            if name not in (known.name for known in self.constants):
                self.constants.append(tensor)
            cast = self.op("Cast", name, to=TensorProto.FLOAT)
            self.named[key] = self.op("Transpose", cast, perm=[1, 0]) if transposed else cast
        return self.named[key]


class Exporter:
    """Writes the Llama forward pass in ONNX."""

    def __init__(self, config: dict[str, Any], weights: dict[str, onnx.TensorProto]) -> None:
        self.config, self.weights, self.g = config, weights, Graph()
        self.heads, self.layers = config["num_attention_heads"], config["num_hidden_layers"]
        self.width = config["hidden_size"] // self.heads

    def linear(self, x: str, *names: str) -> str:
        """Multiply by one weight, or by several side by side."""
        parts = [self.g.weight(self.weights[name], transposed=True) for name in names]
        return self.g.op("MatMul", x, parts[0] if len(parts) == 1 else self.g.op("Concat", *parts, axis=1))

    def norm(self, x: str, name: str) -> str:
        """Apply the root mean square norm."""
        g = self.g
        mean = g.op("ReduceMean", g.op("Pow", x, g.const(2.0, np.float32)), axes=[-1], keepdims=1)
        root = g.op("Sqrt", g.op("Add", mean, g.const(self.config["rms_norm_eps"], np.float32)))
        return g.op("Mul", g.op("Div", x, root), g.weight(self.weights[name]))

    def angles(self, positions: str) -> tuple[str, str]:
        """Return cosine and sine [B, 1, T, width] of every position."""
        g, half = self.g, self.width // 2
        theta = self.config["rope_parameters"]["rope_theta"]
        frequencies = (1.0 / theta ** (np.arange(half, dtype=np.float32) / half)).astype(np.float32)
        place = g.op("Cast", g.op("Unsqueeze", positions, g.const([1, 3])), to=TensorProto.FLOAT)
        angle = g.op("Mul", place, g.const(np.tile(frequencies, 2), np.float32))
        return g.op("Cos", angle), g.op("Sin", angle)

    def rotate(self, x: str, angles: tuple[str, str]) -> str:
        """Rotate the pairs (i, i + half)."""
        g = self.g
        half, end = g.const([self.width // 2]), g.const([self.width])
        left = g.op("Slice", x, g.const([0]), half, g.const([-1]))
        right = g.op("Slice", x, half, end, g.const([-1]))
        turned = g.op("Concat", g.op("Neg", right), left, axis=-1)
        return g.op("Add", g.op("Mul", x, angles[0]), g.op("Mul", turned, angles[1]))

    def split(self, x: str, count: int) -> list[str]:
        """Split [B, T, count * hidden] into ``count`` parts [B, heads, T, width]."""
        g = self.g
        shaped = g.op("Reshape", x, g.const([0, 0, count, self.heads, self.width]))
        turned = g.op("Transpose", shaped, perm=[2, 0, 3, 1, 4])
        return [g.op("Gather", turned, g.const(i), axis=0) for i in range(count)]

    def allowed(self, places: str) -> str:
        """Return the additive mask [B, 1, S, P + T]: real tokens that are not after the place."""
        g = self.g
        shape = g.op("Shape", "mask")
        keys = g.op("Range", g.const(0), g.op("Gather", shape, g.const(1), axis=0), g.const(1))
        before = g.op("LessOrEqual", keys, g.op("Unsqueeze", places, g.const([1, 3])))
        real = g.op("Cast", g.op("Unsqueeze", "mask", g.const([1, 2])), to=TensorProto.BOOL)
        both = g.op("And", before, real)
        return g.op("Where", both, g.const(0.0, np.float32), g.const(-1e9, np.float32))

    def attend(self, q: str, k: str, v: str, mask: str) -> str:
        """Apply softmax attention, and join the heads."""
        g = self.g
        q = g.op("Mul", q, g.const(self.width**-0.5, np.float32))
        scores = g.op("Add", g.op("MatMul", q, g.op("Transpose", k, perm=[0, 1, 3, 2])), mask)
        mixed = g.op("MatMul", g.op("Softmax", scores, axis=-1), v)
        return g.op("Reshape", g.op("Transpose", mixed, perm=[0, 2, 1, 3]), g.const([0, 0, self.config["hidden_size"]]))

    def build(self) -> onnx.ModelProto:
        """Return the whole graph."""
        g = self.g
        embedding = g.weight(self.weights["model.embed_tokens.weight"])
        x = g.op("Gather", embedding, "tokens", axis=0)
        past_length = g.op("Gather", g.op("Shape", "past"), g.const(4), axis=0)
        new = g.op("Gather", g.op("Shape", "tokens"), g.const(1), axis=0)
        row = g.op("Add", g.op("Range", g.const(0), new, g.const(1)), past_length)
        places = g.op("Unsqueeze", row, g.const([0]))
        angles, mask = self.angles("position_ids"), self.allowed(places)
        picked = g.op("Unsqueeze", "wanted", g.const([2]))
        presents = []
        for index in range(self.layers):
            base = f"model.layers.{index}."
            normed = self.norm(x, base + "input_layernorm.weight")
            q, k, v = (base + f"self_attn.{name}_proj.weight" for name in "qkv")
            if index < self.layers - 1:
                query, key, value = self.split(self.linear(normed, q, k, v), 3)
                query = self.rotate(query, angles)
            else:  # only the logits come after the last layer, so it is computed only where they are wanted
                key, value = self.split(self.linear(normed, k, v), 2)
                there = g.op("GatherND", "position_ids", picked, batch_dims=1)
                (query,) = self.split(self.linear(g.op("GatherND", normed, picked, batch_dims=1), q), 1)
                query = self.rotate(query, self.angles(there))
                x = g.op("GatherND", x, picked, batch_dims=1)
                mask = self.allowed(g.op("Add", "wanted", past_length))
            kept = [g.op("Gather", g.op("Gather", "past", g.const(index), axis=0), g.const(i), axis=0) for i in (0, 1)]
            key = g.op("Concat", kept[0], self.rotate(key, angles), axis=2)
            value = g.op("Concat", kept[1], value, axis=2)
            presents += [g.op("Unsqueeze", part, g.const([0])) for part in (key, value)]
            mixed = self.attend(query, key, value, mask)
            x = g.op("Add", x, self.linear(mixed, base + "self_attn.o_proj.weight"))
            normed = self.norm(x, base + "post_attention_layernorm.weight")
            gate = self.linear(normed, base + "mlp.gate_proj.weight")
            up = self.linear(normed, base + "mlp.up_proj.weight")
            inner = g.op("Mul", g.op("Mul", gate, g.op("Sigmoid", gate)), up)
            x = g.op("Add", x, self.linear(inner, base + "mlp.down_proj.weight"))
        logits = self.linear(self.norm(x, "model.norm.weight"), "model.embed_tokens.weight")
        stacked = g.op("Concat", *presents, axis=0)
        present = g.op("Reshape", stacked, self._shape_of_present())
        g.nodes += [helper.make_node("Identity", [a], [b]) for a, b in ((logits, "logits"), (present, "present"))]
        return self._model()

    def _shape_of_present(self) -> str:
        g = self.g
        batch = g.op("Slice", g.op("Shape", "tokens"), g.const([0]), g.const([1]))
        keys = g.op("Slice", g.op("Shape", "mask"), g.const([1]), g.const([2]))
        front, heads, width = g.const([self.layers, 2]), g.const([self.heads]), g.const([self.width])
        return g.op("Concat", front, batch, heads, keys, width, axis=0)

    def _model(self) -> onnx.ModelProto:
        def tensor(name: str, element_type: int, *shape: str | int) -> onnx.ValueInfoProto:
            return helper.make_tensor_value_info(name, element_type, list(shape))

        cache = (self.layers, 2, "batch", self.heads)
        inputs = [
            tensor("tokens", TensorProto.INT64, "batch", "new"),
            tensor("position_ids", TensorProto.INT64, "batch", "new"),
            tensor("mask", TensorProto.INT64, "batch", "all"),
            tensor("past", TensorProto.FLOAT, *cache, "old", self.width),
            tensor("wanted", TensorProto.INT64, "batch", "places"),
        ]
        outputs = [
            tensor("logits", TensorProto.FLOAT, "batch", "places", self.config["vocab_size"]),
            tensor("present", TensorProto.FLOAT, *cache, "all", self.width),
        ]
        graph = helper.make_graph(self.g.nodes, "kshot_embedded", inputs, outputs, self.g.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="kshot")
        model.ir_version = 8
        helper.set_model_props(model, {"config": json.dumps(self.config)})
        return model


def export(folder: Path) -> Path:
    """Write ``model.onnx`` beside ``config.json`` and ``model.safetensors``."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    model = Exporter(config, external_tensors(folder)).build()
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString(deterministic=True))
    onnx.checker.check_model(str(path), full_check=True)
    return path


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    print(export(parser.parse_args().folder))


if __name__ == "__main__":
    main()
