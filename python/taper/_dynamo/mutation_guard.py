"""Generations of modules."""


class GenerationTracker:
    @classmethod
    def get_generation_value(cls, obj):
        raise NotImplementedError("torch._dynamo.mutation_guard.GenerationTracker is not there yet")
