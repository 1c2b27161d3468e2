"""Menus that refer to fitted models: a file's reference becomes the table that an instance holds.

A job of a freezing instance may say ``"menu": {"depths": .., "penalty": .., "fits": [..]}`` instead of rows.
Every fit names a model file that ``apportion fit -o`` wrote, and the GPU counts and batch it is asked about.
Reading the instance replaces the reference by its rows; nothing after that sees a model, so a stored solution
needs none.

A row is effective progress, throughput x statistical efficiency x (1 - frozen penalty): the objective of
layer-freezing schedulers (IceFrog, TPDS 36(6), 2025, names it; its exact form is not public, this one is
derived). For nothing frozen it is Pollux's goodput.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import ArrayLike, NDArray

from apportion.cluster.estimation.layer_throughput import LAWS, LayerThroughput
from apportion.cluster.estimation.measured_steps import LayerShares, read_layers
from apportion.core.errors import InvalidInstance, InvalidOption, Problem

__all__ = [
    "FittedMenu",
    "FittedPlaces",
    "admit_references",
    "effective_progress",
    "materialised",
    "menu_rows",
    "refers",
]


Floats = NDArray[np.float64]


def effective_progress(throughput: ArrayLike, efficiency: ArrayLike, penalty: ArrayLike) -> Floats:
    """Return samples per second, counted as what they teach at the reference batch with nothing frozen.

    Parameters
    ----------
    throughput
        Samples per second, not negative; the arguments broadcast.
    efficiency
        Statistical efficiency at the batch, at most 1 beyond the reference batch.
    penalty
        Frozen penalty, 0 to 1.

    Raises
    ------
    InvalidOption
        If an argument is out of its range.
    """
    x, phi, lost = (np.asarray(part, dtype=np.float64) for part in (throughput, efficiency, penalty))
    if not ((x >= 0).all() and (phi >= 0).all() and ((lost >= 0) & (lost <= 1)).all()):
        raise InvalidOption("need throughput >= 0, efficiency >= 0 and penalty from 0 to 1")
    return np.asarray(x * phi * (1.0 - lost), dtype=np.float64)


_MILLION = 1_000_000


def menu_rows(
    model: LayerThroughput,
    gpu_type: str,
    gpus: Sequence[int],
    gpus_per_node: int,
    local_batch: int,
    depths: Sequence[int],
    work: ArrayLike,
    parameters: ArrayLike,
    penalty: ArrayLike,
    efficiency: ArrayLike = 1.0,
) -> list[dict[str, Any]]:
    """Return the menu of one job on one GPU type as it stands in an instance of kind ``freezing``.

    Parameters
    ----------
    model
        Fitted step times on this GPU type.
    gpu_type
        The name of the GPU type that the model was fitted to.
    gpus
        GPU counts; g of them are ceil(g / gpus_per_node) nodes.
    gpus_per_node
        Size of a node.
    local_batch
        Samples per GPU.
    depths
        Frozen layers, rising.
    work, parameters, penalty
        float64 [depths]: u(k), rho(k) and the frozen penalty.
    efficiency
        float64 [counts] or a number: statistical efficiency at the batch of each count.

    Returns
    -------
    list of dict
        One row per count.

    Raises
    ------
    InvalidOption
        If an array has another length than `depths`, or a count needs what was not measured.
    """
    u, rho, lost = (np.asarray(part, dtype=np.float64) for part in (work, parameters, penalty))
    if not u.shape == rho.shape == lost.shape == (len(depths),):
        raise InvalidOption("need work, parameters and penalty per depth")
    counts = np.asarray(gpus, dtype=np.int64)
    phi = np.broadcast_to(np.asarray(efficiency, dtype=np.float64), counts.shape)
    nodes = -(-counts // gpus_per_node)
    rate = model.throughput(counts[:, None], nodes[:, None], local_batch, u, rho)
    progress = effective_progress(rate, phi[:, None], lost)
    millionths = np.rint(_MILLION * lost).astype(np.int64).tolist()
    return [
        {
            "gpu_type": gpu_type,
            "gpus": count,
            "depths": [int(depth) for depth in depths],
            "effective_progress": row.tolist(),
            "penalty_millionths": millionths,
        }
        for count, row in zip(counts.tolist(), progress, strict=True)
        if len(depths)
    ]


_LARGEST_FILE = 16 * 2**20

Positive = Annotated[int, Meta(ge=1, le=10**9)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
Efficiency = Annotated[float, Meta(ge=0.0, le=1e9)]


class FittedPlaces(Struct, frozen=True, forbid_unknown_fields=True):
    """A fitted model, and the GPU counts of one type for which its predictions become rows of a menu.

    Attributes
    ----------
    gpu_type
        The GPU type whose steps the model was fitted to.
    model
        Path of a model file, relative to the instance file; to the working directory for standard input.
    gpus
        GPU counts, one row each.
    local_batch
        Samples per GPU.
    layers
        Path of the layer file the model was fitted with; needed where its shares are columns of it.
    efficiency
        Statistical efficiency at the batch of each count, or one for all.
    gpus_per_node
        Size of a node; by default the instance's for this type.
    """

    gpu_type: str
    model: str
    gpus: tuple[Positive, ...]
    local_batch: Positive
    layers: str | None = None
    efficiency: Efficiency | tuple[Efficiency, ...] = 1.0
    gpus_per_node: Positive | None = None


class FittedMenu(Struct, frozen=True, forbid_unknown_fields=True):
    """A menu by fitted models instead of rows; reading the instance turns it into rows.

    Attributes
    ----------
    depths
        Frozen layers, strictly rising.
    fits
        The models, one a GPU type.
    penalty
        Frozen penalty per depth, 0 to 1; empty for none.
    """

    depths: tuple[Annotated[int, Meta(ge=0, le=10**9)], ...]
    fits: tuple[FittedPlaces, ...]
    penalty: tuple[Share, ...] = ()


def refers(tree: Mapping[str, Any]) -> bool:
    """Return whether any job of an instance, as decoded from JSON, refers to fitted models."""
    jobs = tree.get("jobs")
    return isinstance(jobs, list) and any(
        isinstance(job, dict) and isinstance(job.get("menu"), dict) for job in jobs
    )


def admit_references(definitions: dict[str, Any]) -> None:
    """Let the definitions of the JSON Schema admit a reference where an instance has rows."""
    definitions |= msgspec.json.schema(FittedMenu)["$defs"]
    properties = definitions["FreezingJob"]["properties"]
    reference = {"$ref": "#/$defs/FittedMenu"}
    # not anyOf: errors inside rows keep their own paths
    properties["menu"] = {"if": {"type": "object"}, "then": reference, "else": properties["menu"]}


def materialised(tree: dict[str, Any], base: Path) -> dict[str, Any]:
    """Return an instance, as decoded from JSON, with rows in place of references.

    Parameters
    ----------
    tree
        A freezing instance; what is not a reference is taken as it is.
    base
        Folder that paths are relative to.

    Raises
    ------
    InvalidInstance
        If a reference, its model or its layers are wrong or cannot be read; every one is named by its path.
    """
    problems: list[Problem] = []
    files = _Files(base)
    nodes = tree.get("gpus_per_node")
    sizes = nodes if isinstance(nodes, dict) else {}
    jobs = []
    for index, job in enumerate(tree["jobs"]):
        if isinstance(job, dict) and isinstance(job.get("menu"), dict):
            rows = _rows(f"$.jobs[{index}]", job, sizes, files, problems)
            jobs.append({**job, "menu": rows})
        else:
            jobs.append(job)
    if problems:
        raise InvalidInstance(problems)
    return {**tree, "jobs": jobs}


def _rows(
    path: str, job: Mapping[str, Any], sizes: Mapping[str, Any], files: _Files, problems: list[Problem]
) -> list[dict[str, Any]]:
    try:
        menu = msgspec.convert(job["menu"], FittedMenu)
    except msgspec.ValidationError as error:
        problem = Problem.of_decoding(error, f"{path}.menu")
        problems.append(Problem(problem.path, problem.message[0].lower() + problem.message[1:]))
        return []
    if menu.penalty and len(menu.penalty) != len(menu.depths):
        message = f"must give one value for each of the {len(menu.depths)} depths"
        problems.append(Problem(f"{path}.menu.penalty", message))
        return []
    found = []
    for index, fit in enumerate(menu.fits):
        where = f"{path}.menu.fits[{index}]"
        try:
            found += _places(where, menu, fit, job.get("layers"), sizes.get(fit.gpu_type), files)
        except InvalidInstance as error:
            problems.extend(error.problems)
        except InvalidOption as error:
            problems.append(Problem(where, str(error)))
    return found


def _places(
    where: str, menu: FittedMenu, fit: FittedPlaces, layers: Any, node: Any, files: _Files
) -> list[dict[str, Any]]:
    model, document = files.model(f"{where}.model", fit.model)
    if document["layers"] != layers:
        message = f"was fitted to {document['layers']} layers, the job has {layers}"
        raise InvalidInstance(Problem(f"{where}.model", message))
    if menu.depths and menu.depths[-1] > document["layers"]:
        raise InvalidInstance(
            Problem(where, f"depth {menu.depths[-1]} exceeds the {document['layers']} layers")
        )
    size = fit.gpus_per_node or node
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        hint = f"is missing, here or in the instance's gpus_per_node for {fit.gpu_type!r}"
        raise InvalidInstance(Problem(f"{where}.gpus_per_node", hint))
    if isinstance(fit.efficiency, tuple) and len(fit.efficiency) != len(fit.gpus):
        hint = f"must be a number, or one for each of the {len(fit.gpus)} GPU counts"
        raise InvalidInstance(Problem(f"{where}.efficiency", hint))
    shares = None if fit.layers is None else files.layers(f"{where}.layers", fit.layers)
    depth = np.array(menu.depths, dtype=np.int64)
    work, parameters = (
        _share(where, document[name], depth, document["layers"], shares)
        for name in ("work_share", "parameter_share")
    )
    return menu_rows(
        model,
        fit.gpu_type,
        fit.gpus,
        size,
        fit.local_batch,
        menu.depths,
        work,
        parameters,
        menu.penalty or np.zeros(depth.size),
        fit.efficiency,
    )


def _share(where: str, name: Any, depth: Any, layers: int, shares: LayerShares | None) -> Any:
    if name == "layers":
        return 1.0 - depth / layers
    if shares is None:
        raise InvalidInstance(Problem(f"{where}.layers", f"is needed: the model goes by its column {name!r}"))
    if name not in shares.shares:
        raise InvalidInstance(Problem(f"{where}.layers", f"has no usable column {name!r}"))
    return shares.at(name, depth)


class _Files:
    """Model and layer files, each read once."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self._models: dict[str, tuple[LayerThroughput, dict[str, Any]]] = {}
        self._layers: dict[str, LayerShares] = {}

    def model(self, where: str, name: str) -> tuple[LayerThroughput, dict[str, Any]]:
        if name not in self._models:
            self._models[name] = _model(where, name, self._text(where, name))
        return self._models[name]

    def layers(self, where: str, name: str) -> LayerShares:
        if name not in self._layers:
            text = self._text(where, name)
            try:
                self._layers[name] = read_layers(text)
            except InvalidInstance as error:
                raise InvalidInstance(
                    Problem(where, f"{name!r} is no layer file: {error.problems[0]}")
                ) from None
        return self._layers[name]

    def _text(self, where: str, name: str) -> str:
        try:
            with (self._base / name).open("rb") as file:
                raw = file.read(_LARGEST_FILE + 1)
            if len(raw) > _LARGEST_FILE:
                raise InvalidInstance(Problem(where, f"{name!r} has more than {_LARGEST_FILE:,} bytes"))
            return raw.decode("utf-8-sig")
        except OSError as error:
            raise InvalidInstance(
                Problem(where, f"cannot read {name!r}: {error.strerror or error}")
            ) from None
        except ValueError:
            raise InvalidInstance(Problem(where, f"{name!r} is no UTF-8 text or no path")) from None


def _model(where: str, name: str, text: str) -> tuple[LayerThroughput, dict[str, Any]]:
    wrong = f"{name!r} is no model file of apportion fit"
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInstance(Problem(where, f"{wrong}: {error}")) from None
    if (
        not isinstance(document, dict)
        or document.get("kind") != "layer_throughput"
        or document.get("schema_version") != "1"
    ):
        raise InvalidInstance(Problem(where, f'{wrong}: its kind must be "layer_throughput", version "1"'))
    layers, given = document.get("layers"), document.get("parameters")
    shares = (document.get("work_share"), document.get("parameter_share"))
    if type(layers) is not int or layers < 1 or not all(isinstance(share, str) for share in shares):
        raise InvalidInstance(Problem(where, f"{wrong}: layers, work_share or parameter_share is wrong"))
    try:
        model = msgspec.convert(given, LayerThroughput, strict=True)
        numbers = [value for value in model.as_json().values() if isinstance(value, float)]
        if not isinstance(given, dict) or not set(given) <= set(model.as_json()) or model.law not in LAWS:
            raise ValueError("has an unknown parameter")
        if not all(np.isfinite(value) and value >= 0 for value in numbers):
            raise ValueError("parameters must be finite and not negative")
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise InvalidInstance(Problem(where, f"{wrong}: parameters: {error}")) from None
    return model, document
