"""The settings of a run: frozen dataclasses, their checks, the presets, and the models of a stack.

Every number a run depends on is a field here. Flags, JSON files and Python pass the same checks: a bad value raises a
ConfigError whose one line names the field, its value and what is accepted. No value is adjusted silently.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field
from operator import attrgetter
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from assignadd.config.errors import ConfigError as ConfigError
from assignadd.config.errors import UsageError, did_you_mean
from assignadd.config.errors import UserError as UserError
from assignadd.config.task import Task as Task
from assignadd.config.task import TaskFile as TaskFile
from assignadd.config.task import check_task, setting

# The most models of a stack.
MOST_MODELS = 4096
# The parts of a network that can be frozen, or taken from another network.
Part = Literal["none", "W_E", "QK1", "OV1", "QK2", "OV2", "MLP2"]


@dataclass(frozen=True)
class NetworkFile:
    """A network of the user's own as a run remembers it: its file, and its weights by name and shape."""

    name: str = field(compare=False)
    """The name of the file."""
    sha256: str
    """The hash of the file's text."""
    weights: tuple[tuple[str, tuple[int, ...]], ...]

    def __repr__(self) -> str:
        return f"{self.name} (sha256 {self.sha256[:12]}, {len(self.weights)} weights)"


@dataclass(frozen=True)
class Model:
    """The transformer (paper, section 3)."""

    n_layers: int = setting(2, 1, 16)
    """Layers, each with attention and, where d_mlp says so, an MLP."""
    n_heads: int = setting(1, 1, 64)
    """Attention heads in each layer."""
    d_model: int = setting(128, 1, 4096)
    """Width of the residual stream."""
    d_head: int = setting(128, 1, 4096)
    """Width of a head."""
    d_mlp: tuple[int | None, ...] = (None, 512)
    """MLP width after each layer; None where a layer has no MLP."""
    activation: Literal["relu", "gelu", "abs"] = "relu"
    """Activation function of the MLPs."""
    norm: Literal["none", "layer", "rms"] = "none"
    """Normalisation before attention, MLPs and unembedding."""
    biases: bool = False
    """Biases in attention, MLPs and unembedding."""
    init_scale: float = setting(0.8, 1e-6, 3.0, per_model=True)
    """Every matrix starts as N(0, (init_scale / sqrt(d_model))^2). Beyond 3, scores are so large that their rounding in
    single precision changes the gradients of some seeds by more than a thousandth."""
    direct_path: bool = setting(True, added_later=True)
    """Whether the unembedding also reads the residual stream before the last MLP; if not, that MLP's output alone."""
    file: NetworkFile | None = setting(None, added_later=True, from_file=True)
    """A network of the user's own, given as a file; the other settings of the model are then not used."""


@dataclass(frozen=True)
class Optim:
    """AdamW, by default without schedule or warm-up; no clipping; fresh data every step."""

    lr: float = setting(1e-3, 0.0, 10.0, per_model=True)
    """Learning rate."""
    weight_decay: float = setting(0.02, 0.0, 100.0, per_model=True)
    """Decoupled weight decay, on every weight."""
    beta1: float = setting(0.9, 0.0, 0.999999, per_model=True)
    """Decay of the first moment."""
    beta2: float = setting(0.999, 0.0, 0.99999999, per_model=True)
    """Decay of the second moment."""
    eps: float = setting(1e-8, 1e-16, 1.0, per_model=True)
    """Added to the root of the second moment."""
    batch: int = setting(512, 1, 1 << 20)
    """Sequences in a step."""
    steps: int = setting(30_000, 0, 1 << 31)
    """Updates in all."""
    warmup: int = setting(0, 0, 1 << 31, added_later=True, per_model=True)
    """Steps over which the learning rate rises linearly from 0; 0 for none."""
    later_lr: float | None = setting(None, 0.0, 10.0, added_later=True, per_model=True)
    """Learning rate from step later_from on; if None, it stays at lr."""
    later_from: int = setting(0, 0, 1 << 31, added_later=True, per_model=True)
    """The step from which the learning rate is later_lr."""
    frozen: Part = setting("none", added_later=True, per_model=True)
    """A part (W_E, QK1, OV1, QK2, OV2 or MLP2) that keeps its weights from step frozen_from until frozen_until."""
    frozen_from: int = setting(0, 0, (1 << 31) - 1, added_later=True, per_model=True)
    """The step from which the frozen part keeps its weights; 0 for its initial ones."""
    frozen_until: int = setting(0, 0, 1 << 31, added_later=True, per_model=True)
    """The step from which the frozen part is trained; its moments are averaged before as well."""
    literals_from: int = setting(0, 0, 1 << 31, added_later=True, per_model=True)
    """The step from which training has sequences without variables; before it, every sequence has one or more."""
    slot_score: float = setting(0.0, -50.0, 50.0, added_later=True, per_model=True)
    """Added in training, from step slot_score_from until slot_score_until, to the score with which `=` attends in layer
    1 to each operand slot that holds a variable. Evaluations are without it."""
    slot_score_from: int = setting(0, 0, 1 << 31, added_later=True, per_model=True)
    """The first step with slot_score."""
    slot_score_until: int = setting(0, 0, 1 << 31, added_later=True, per_model=True)
    """The step from which slot_score is not added any more."""


@dataclass(frozen=True)
class Recording:
    """What a run records, and how often."""

    eval_every: int = setting(100, 1, 1 << 31)
    """Steps between evaluations."""
    eval_sequences: int = setting(512, 1, 1 << 20)
    """Sequences per evaluation set while training (`assignadd measure` takes more)."""
    checkpoint_every: int = setting(100, 1, 1 << 31)
    """Steps between checkpoints, after the log-spaced ones 0, 1, 2, 5, 10, 20, 50."""
    state_every: int = setting(1000, 1, 1 << 31)
    """Steps between stored optimizer states, from which training can be repeated bit for bit."""
    measure_every: int = setting(0, 0, 1 << 31)
    """Steps between progress measures during training (sweeps record them); 0 for none."""
    final_sequences: int = setting(0, 0, 1 << 20)
    """Sequences per evaluation set in a larger evaluation at the end (sweeps record it); 0 for none."""
    log_spaced: bool = setting(True, added_later=True)
    """Whether the steps 1, 2, 5, 10, 20 and 50 have checkpoints, whatever checkpoint_every says."""


@dataclass(frozen=True)
class Seeds:
    """The seed of each source of randomness; None stands for the seed of the model."""

    init: int | None = setting(None, 0, 2**63 - 1, per_model=True)
    """The seed of the initial weights."""
    data: int | None = setting(None, 0, 2**63 - 1, per_model=True)
    """The seed of the training and evaluation sequences."""
    split: int | None = setting(None, 0, 2**63 - 1, per_model=True)
    """The seed of the permutation that chooses the held-out pairs."""


@dataclass(frozen=True)
class Start:
    """The weights that training starts from; by default those of the seed. They are read before the first step alone.

    A network is named as RUN:SEED or RUN:SEED@STEP, such as census-six:3: a run folder, its name under runs/ or a run
    of the package, and one of its seeds; at its last checkpoint unless a step is given. initial:SEED is the network
    with the initial weights of a seed.
    """

    network: str | None = setting(None, added_later=True, per_model=True)
    """A trained network whose weights training starts from, such as census-six:3; if None, those of the seed."""
    part: Part = setting("none", added_later=True, per_model=True)
    """A part (W_E, QK1, OV1, QK2, OV2 or MLP2) that starts with the weights it has in part_from."""
    part_from: str | None = setting(None, added_later=True, per_model=True)
    """The network from which the part is taken, such as census-six:0 or initial:7; not used where part is none."""
    mlp_in_factor: float = setting(1.0, 0.0, 1000.0, added_later=True, per_model=True)
    """Factor on the initial W_in of the last MLP, whatever network it is from."""
    mlp_out_factor: float = setting(1.0, 0.0, 1000.0, added_later=True, per_model=True)
    """Factor on the initial W_out of the last MLP."""

    @property
    def sources(self) -> dict[str, tuple[str, str]]:
        """By field: the network that it names, and the part of it that training takes (`all` for every weight)."""
        sources = {}
        if self.network:
            sources["network"] = (self.network, "all")
        if self.part_from and self.part != "none":
            sources["part_from"] = (self.part_from, self.part)
        return sources


# How a network is named: a run, or INITIAL, one of its seeds, and perhaps a step.
INITIAL = "initial"
NETWORK = re.compile(r"(?P<run>.+):(?P<seed>[0-9]{1,19})(?:@(?P<step>[0-9]{1,18}))?")


@dataclass(frozen=True)
class Numerics:
    """Number format and rounding."""

    dtype: Literal["float32", "float64"] = "float32"
    """Number format of weights, gradients and optimizer moments."""
    tf32: bool = False
    """Let an NVIDIA GPU round the inputs of matrix products to TF32."""
    loss_in_float64: bool = setting(False, added_later=True)
    """Compute the loss and its gradient by the logits in double precision, and round the gradient to `dtype`."""


@dataclass(frozen=True)
class Config:
    """All settings of a run but the seeds of its models."""

    task: Task = field(default_factory=Task)
    model: Model = field(default_factory=Model)
    optim: Optim = field(default_factory=Optim)
    record: Recording = field(default_factory=Recording)
    seed: Seeds = field(default_factory=Seeds)
    numerics: Numerics = field(default_factory=Numerics)
    start: Start = field(default_factory=Start)

    def __post_init__(self) -> None:
        validate(self)


# Every setting by its dotted name, such as `optim.lr`: the field with its type, default and limits.
SETTINGS: dict[str, Field[Any]] = {
    f"{section.name}.{setting_field.name}": setting_field
    for section in dataclasses.fields(Config)
    for setting_field in dataclasses.fields(section.type)  # type: ignore[arg-type]
}
# The settings in which the models of one stack may differ.
PER_MODEL = [name for name, setting_field in SETTINGS.items() if setting_field.metadata.get("per_model")]


@dataclass(frozen=True)
class Rule:
    """The values that a setting accepts."""

    words: str
    """As errors list them."""
    accepts: Callable[[Any], bool]


def _rule_of(setting_field: Field[Any]) -> Rule | None:
    """The rule of a number within limits, a truth value or a choice; None for a field with a check of its own."""
    kind, about = setting_field.type, setting_field.metadata
    kinds = (kind, *get_args(kind))  # of `int | None`: the union, int and NoneType
    if about.get("low") is not None:
        low, high = about["low"], about["high"]
        is_whole = int in kinds
        types = (int,) if is_whole else (int, float)

        def is_within(value: Any) -> bool:
            if value is None:
                return NoneType in kinds
            return isinstance(value, types) and not isinstance(value, bool) and low <= value <= high

        return Rule(f"a {'whole number' if is_whole else 'number'} from {low} to {high}", is_within)
    if kind is bool:
        return Rule("true or false", lambda value: isinstance(value, bool))
    if get_origin(kind) is Literal:
        return Rule("one of " + ", ".join(get_args(kind)), get_args(kind).__contains__)
    return None


# The rule of each setting that has one, by its dotted name.
RULES = {name: rule for name, setting_field in SETTINGS.items() if (rule := _rule_of(setting_field)) is not None}


# The last accepted object of each section: most sections of the next configuration of a sweep are the same objects.
_last_accepted: dict[str, Any] = {}


def validate(config: Config) -> None:
    """Raises a ConfigError for the first field that is out of range or does not fit the others."""
    for section, values in vars(config).items():
        if values is _last_accepted.get(section):
            continue
        for field_name, value in vars(values).items():
            rule = RULES.get(f"{section}.{field_name}")
            if rule and not rule.accepts(value):
                raise ConfigError(f"{section}.{field_name}", value, rule.words)
        if section == "task":
            check_task(config.task)
        _last_accepted[section] = values
    _check_files(config)
    _check_model(config.model)
    _check_part("optim.frozen", config.optim.frozen, config.model)
    _check_schedules(config)
    _check_start(config)


def _check_files(config: Config) -> None:
    """Raises a ConfigError for something else than a network file, and for settings that have no meaning beside one."""
    task_file, network_file = config.task.file, config.model.file
    if task_file is not None:
        others = ("optim.literals_from", "optim.slot_score", "record.measure_every")
        _require_defaults(config, ("task.",), others, f"the task is {task_file.name}")
    if network_file is None:
        return
    if not isinstance(network_file, NetworkFile):
        raise ConfigError("model.file", network_file, "the description of a network that `--network FILE.py` writes")
    sizes = [size for _, shape in network_file.weights for size in shape]
    if not network_file.weights or not all(type(size) is int and size >= 0 for size in sizes):
        raise ConfigError(f"weights of {network_file.name}", network_file.weights, "names and shapes of weights")
    others = ("optim.slot_score", "record.measure_every", "optim.frozen")
    _require_defaults(config, ("model.", "start."), others, f"the network is {network_file.name}")


def _require_defaults(config: Config, sections: tuple[str, ...], names: tuple[str, ...], reason: str) -> None:
    """Raises a ConfigError for a setting of these sections, or with one of these names, that has not its default."""
    for name, setting_field in SETTINGS.items():
        value = attrgetter(name)(config)
        is_meant = name in names or (name.startswith(sections) and not name.endswith(".file"))
        if is_meant and value != setting_field.default:
            raise ConfigError(name, value, f"{setting_field.default!r}, its default: {reason}")


def has_code_of_user(config: Config) -> bool:
    """Whether the task or the network is the user's own, of which the paper's measures know nothing."""
    return config.task.file is not None or config.model.file is not None


def require_built_in(config: Config, command: str) -> None:
    """Raises a UsageError, which names the command, if the task or the network is the user's own."""
    for option, file in {"task": config.task.file, "network": config.model.file}.items():
        if file is not None:
            raise UsageError(
                f"{command} is for the package's task and transformer, and this run's {option} is {file.name}; "
                f"`assignadd measure RUN --{option} {file.name}` evaluates it, `assignadd runs show RUN` shows it"
            )


def _check_model(model: Model) -> None:
    """Raises a ConfigError for MLP widths that are none or do not fit the layers, or if `direct_path` lacks its MLP."""
    widths = model.d_mlp
    if not isinstance(widths, tuple) or len(widths) != model.n_layers:
        one_each = f"a tuple with one width or None for each of the {model.n_layers} layers"
        raise ConfigError("model.d_mlp", widths, one_each)
    # True is an int too.
    if not all(width is None or (type(width) is int and 1 <= width <= 65536) for width in widths):
        raise ConfigError("model.d_mlp", widths, "widths from 1 to 65536, or None")
    if not model.direct_path and widths[-1] is None:
        raise ConfigError("model.direct_path", False, "true: there is no MLP after the last layer")


def _check_part(name: str, part: str, model: Model) -> None:
    """Raises a ConfigError if this model does not have `part`, the value of the setting `name`."""
    if part.endswith("2") and model.n_layers < 2:
        raise ConfigError(name, part, "none or a part of layer 1: there is no layer 2")
    if part == "MLP2" and model.d_mlp[1] is None:
        raise ConfigError(name, part, "another part: there is no MLP after layer 2")


def _check_schedules(config: Config) -> None:
    """Raises a ConfigError if a part would be frozen for no step, or if training would have no sequences at first."""
    optim = config.optim
    if optim.frozen_from and optim.frozen_from >= optim.frozen_until:
        earlier = f"a step before optim.frozen_until = {optim.frozen_until}"
        raise ConfigError("optim.frozen_from", optim.frozen_from, earlier)
    if optim.literals_from and sum(config.task.mix[1:]) == 0:
        raise ConfigError("optim.literals_from", optim.literals_from, "0: training has no sequences with variables")


def _check_start(config: Config) -> None:
    """Raises a ConfigError for a name of no network, a part or an MLP that is missing, or a part from no network."""
    start = config.start
    for name, network in (("start.network", start.network), ("start.part_from", start.part_from)):
        match = NETWORK.fullmatch(network) if isinstance(network, str) else None
        if network is not None and (match is None or int(match["seed"]) >= 2**63):
            raise ConfigError(name, network, "a run and a seed, such as census-six:3 or census-six:3@50000")
    _check_part("start.part", start.part, config.model)
    for name in ("mlp_in_factor", "mlp_out_factor"):
        factor = getattr(start, name)
        if factor != 1 and config.model.d_mlp[-1] is None:
            raise ConfigError(f"start.{name}", factor, "1: there is no MLP after the last layer")
    if start.part != "none" and start.part_from is None:
        raise ConfigError("start.part_from", None, f"a network such as census-six:0 whose {start.part} is taken")


def with_settings(config: Config, settings: Mapping[str, Any]) -> Config:
    """The configuration with other values of settings, by their dotted names."""
    changes: dict[str, dict[str, Any]] = {}  # by section, then by field
    for name, value in settings.items():
        if name not in SETTINGS:
            raise ConfigError(name, value, f"the name of a setting, such as optim.lr{did_you_mean(name, SETTINGS)}")
        section, _, field_name = name.partition(".")
        changes.setdefault(section, {})[field_name] = value
    # All sections are replaced at once, as their checks may depend on each other; `dataclasses.replace` is slower.
    old_sections = vars(config)
    new_sections = {name: type(old_sections[name])(**(vars(old_sections[name]) | changes[name])) for name in changes}
    return Config(**(old_sections | new_sections))


# Settings that the first version named without their section: so they stand in its runs, tables and sweep files.
WITH_SHORT_NAMES = ("optim.lr", "optim.weight_decay", "task.seen_fraction", "task.one_var_ratio", "task.two_var_ratio")
SHORT_NAMES = {name.partition(".")[2]: name for name in WITH_SHORT_NAMES}


@dataclass(frozen=True, init=False, slots=True)
class Member:
    """One model of a stack or a sweep: its seed, and the settings in which it differs from the others."""

    seed: int
    settings: tuple[tuple[str, Any], ...]
    """Pairs of a dotted name and a value, sorted by name."""

    def __init__(self, seed: int, settings: Mapping[str, Any] | None = None, **short: Any):
        """`Member(0, lr=0.001)` is short for `Member(0, {"optim.lr": 0.001})`; a setting that is None is left out."""
        values = {**(settings or {}), **short}
        by_dotted_name = {SHORT_NAMES.get(name, name): value for name, value in values.items()}
        pairs = [(name, value) for name, value in by_dotted_name.items() if value is not None]
        object.__setattr__(self, "seed", seed)  # the dataclass is frozen
        object.__setattr__(self, "settings", tuple(sorted(pairs)))

    def config(self, base: Config) -> Config:
        """The configuration of this model alone, its three seeds filled in."""
        _check_seed(self.seed)
        filled_in = {f"seed.{name}": self.seed for name, seed in vars(base.seed).items() if seed is None}
        return with_settings(base, filled_in | dict(self.settings))

    def divided(self) -> "tuple[tuple[tuple[str, Any], ...], Member]":
        """Two parts: the settings that all models of a stack must share, and a member with the other settings.

        The first part has the form of `settings`, pairs of a dotted name and a value.
        """
        stack_settings = tuple((name, value) for name, value in self.settings if name not in PER_MODEL)
        model_settings = {name: value for name, value in self.settings if name in PER_MODEL}
        return stack_settings, Member(self.seed, model_settings)


def check_members(config: Config, members: Sequence[Member]) -> None:
    """Raises a ConfigError for the first member whose seed or settings are not accepted."""
    checked_settings: object = None
    for member in members:
        _check_seed(member.seed)
        if member.settings != checked_settings:  # of a grid, thousands in a row differ in their seeds alone
            with_settings(config, dict(member.settings))
            checked_settings = member.settings


def _check_seed(seed: int) -> None:
    """Raises a ConfigError for a seed that is out of range."""
    if not 0 <= seed < 2**63:
        raise ConfigError("seeds", seed, "a whole number from 0 to 2^63 - 1")


PRESETS: dict[str, Config] = {
    # The paper's section 3, to the digit.
    "paper": Config(),
    # The paper's code and checkpoints, which differ from its text in the letters that are banned in each slot.
    "authors": Config(task=Task(banned_first="kl", banned_second="ab")),
    # Learns the whole task in about a minute on one core; nearly every seed binds.
    "tiny": Config(
        task=Task(23, n_vars=6, length=10, max_assignments=3, seen_fraction=0.8, banned_first="a", banned_second="b"),
        model=Model(d_model=64, d_head=64, d_mlp=(None, 128)),
        optim=Optim(lr=4e-3, weight_decay=0.1, batch=128, steps=10_000),
    ),
    # Runs every part of the package in seconds; nothing is learned.
    "smoke": Config(
        task=Task(7, n_vars=4, length=8, max_assignments=2, seen_fraction=0.8, banned_first="a", banned_second="b"),
        model=Model(d_model=16, d_head=16, d_mlp=(None, 32)),
        optim=Optim(batch=32, steps=60),
        record=Recording(eval_every=20, eval_sequences=64, checkpoint_every=20, state_every=40),
    ),
}
