from assignadd.dynamics.binding import BINDING_SET, BINDING_THRESHOLD, learned_binding

__all__ = ["BINDING_SET", "BINDING_THRESHOLD", "learned_binding"]
