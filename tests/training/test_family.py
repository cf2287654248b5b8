"""A network trained on the smallest interesting member of the family of tasks answers everything."""

from assignadd.config import Config, Member, Model, Optim, Recording, Task
from assignadd.task.splits import splits_of
from assignadd.training.trainer import Trainer


def test_a_network_learns_to_look_values_up():
    """One operand, N = 5, two of six variables assigned: without binding a network is right on .8 of the lookups."""
    task = Task(
        *(5, 6, 8, 2, 1.0, "", ""),  # N, V, T, assignments, seen share, no bans
        operands=1,
        one_var_ratio=20.0,
    )
    config = Config(
        task=task,
        model=Model(d_model=64, d_head=64, d_mlp=(None, 128)),
        optim=Optim(lr=4e-3, weight_decay=0.0, batch=256),
        record=Recording(eval_sequences=1000),
    )
    trainer = Trainer(config, [Member(0)], splits_of([Member(0).config(config)]))
    before = trainer.evaluate()[0]["accuracy"]
    assert before.keys() == {"0-var train", "1-var train"} and max(before.values()) < 0.5
    reached = []
    while not reached or (reached[-1] < 1 and len(reached) < 12):
        trainer.advance(100)
        reached.append(min(trainer.evaluate()[0]["accuracy"].values()))
    assert reached[-1] == 1.0, reached
