"""Settings of ahead-of-time autograd."""
import sys

from ..utils._config_module import install_config_module

debug_assert = False                # check at each call what was assumed when the function was compiled
debug_partitioner = False
static_weight_shapes = True         # sizes of parameters are numbers even where those of inputs are symbols
functionalize_rng_ops = False
fake_tensor_allow_meta = True
fake_tensor_allow_unsafe_data_ptr_access = True
enable_autograd_cache = False
strict_autograd_cache = False
cse = True
max_dist_from_bw = 1000
ban_recompute_used_far_apart = True
ban_recompute_long_fusible_chains = True
ban_recompute_materialized_backward = True
ban_recompute_not_in_allowlist = True
ban_recompute_reductions = True
recompute_views = False
activation_memory_budget = 1.0
view_replay_for_aliased_outputs = True

install_config_module(sys.modules[__name__])
