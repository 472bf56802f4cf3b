"""Modules that have no file of their own: which names they have, and where those stand.

PyTorch has a module for nearly every class, and old paths beside new ones. Here what belongs together stands in one file, and two
tables give it the other paths. A folder without __init__.py needs no row: it is a package all the same.
"""
import sys
import types

from . import _C

ROOT = __package__

# Files that hold what PyTorch has in several modules, and those modules, beside the file.
FAMILIES = {
    "_dynamo.eval_frame": """
        decorators: allow_in_graph breaks disable disallow_in_graph forbid_in_graph graph_break mark_dynamic mark_static mark_unbacked maybe_mark_dynamic run""",
    "_dynamo.utils": """
        debug_utils: same_two_models
        mutation_guard: GenerationTracker""",
    "_functorch.aot_autograd": """
        partitioners: default_partition min_cut_rematerialization_partition""",
    "_functorch.eager_transforms": """
        apis: vmap""",
    "_higher_order": """
        _higher_order_ops.associative_scan: associative_scan associative_scan_op
        _higher_order_ops.auto_functionalize: can_auto_functionalize AutoFunctionalized auto_functionalized auto_functionalized_v2
        _higher_order_ops.cond: cond cond_op
        _higher_order_ops.map: map map_impl
        _higher_order_ops.out_dtype: OutDtypeOperator ALLOWABLE_OPS out_dtype
        _higher_order_ops.scan: along_first scan scan_op
        _higher_order_ops.utils: is_tensor flat_function
        _higher_order_ops.while_loop: while_loop while_loop_op""",
    "_settings": """
        utils.dlpack: from_dlpack to_dlpack""",
    "_tensor": """
        _tensor_str: get_printoptions printoptions set_printoptions""",
    "autograd.grad_mode": """
        anomaly_mode: set_detect_anomaly detect_anomaly""",
    "futures": """
        jit._async: fork wait""",
    "fx.annotate": """
        tensor_type: TensorType Dyn is_consistent is_more_precise _DynType""",
    "fx.experimental.normalize": """
        schema_type_annotation: AnnotateTypesWithSchema""",
    "fx.experimental.optimization": """
        merge_matmul: split_result_tensors may_depend_on are_nodes_independent merge_matmul""",
    "fx.graph": """
        _pytree: SUPPORTED_NODES SUPPORTED_NODES_EXACT_MATCH register_pytree_flatten_spec tree_flatten_spec""",
    "fx.node": """
        _compatibility: compatibility _BACK_COMPAT_OBJECTS _MARKED_WITH_COMPATIBILITY
        immutable_collections: immutable_dict immutable_list""",
    "fx.passes.infra.pass_manager": """
        pass_base: PassResult PassBase""",
    "fx.passes.shape_prop": """
        fake_tensor_prop: FakeTensorProp
        reinplace: reinplace""",
    "fx.passes.split_module": """
        split_utils: getattr_recursive setattr_recursive Component split_by_tags""",
    "fx.passes.tools_common": """
        annotate_getitem_nodes: annotate_getitem_nodes
        graph_manipulation: replace_target_nodes_with size_bytes get_size_of_all_nodes get_tensor_meta get_size_of_node
        param_fetch: default_matching extract_attrs_for_lowering lift_lowering_attrs_to_nodes""",
    "fx.passes.utils": """
        utils.common: HolderModule lift_subgraph_as_module compare_graphs""",
    "fx.passes.utils.matcher_utils": """
        matcher_with_name_node_map_utils: SubgraphMatcherWithNameNodeMap
        source_matcher_utils: get_source_partitions check_subgraphs_connected SourcePartition""",
    "jit._script": """
        _serialization: load save
        _state: _clear_class_state qualified taken""",
    "nn.modules._hooks": """
        _functions: BackwardHookFunction pass_through""",
    "nn.modules._weightless": """
        channelshuffle: ChannelShuffle
        distance: PairwiseDistance CosineSimilarity
        dropout: _DropoutNd Dropout Dropout1d Dropout2d Dropout3d AlphaDropout FeatureAlphaDropout
        flatten: Flatten Unflatten
        fold: Unfold Fold
        padding: _CircularPadNd _ConstantPadNd _ReflectionPadNd _ReplicationPadNd CircularPad1d CircularPad2d CircularPad3d
        padding: ConstantPad1d ConstantPad2d ConstantPad3d ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d
        padding: ReplicationPad2d ReplicationPad3d ZeroPad1d ZeroPad2d ZeroPad3d
        pixelshuffle: PixelShuffle PixelUnshuffle
        upsampling: Upsample UpsamplingNearest2d UpsamplingBilinear2d""",
    "nn.utils._parameters": """
        clip_grad: clip_grad_norm clip_grad_norm_ clip_grad_value_ clip_grads_with_norm_ get_total_norm
        convert_parameters: parameters_to_vector vector_to_parameters
        fusion: fuse_conv_bn_eval fuse_conv_bn_weights fuse_linear_bn_eval fuse_linear_bn_weights
        init: skip_init
        memory_format: convert_conv2d_weight_memory_format convert_conv3d_weight_memory_format
        stateless: functional_call""",
    "optim._elementwise": """
        adadelta: Adadelta
        adagrad: Adagrad
        adamax: Adamax
        asgd: ASGD
        nadam: NAdam
        radam: RAdam
        rmsprop: RMSprop
        rprop: Rprop
        sparse_adam: SparseAdam""",
    "testing._internal.decorators": """
        common_cuda: PLATFORM_SUPPORTS_FLASH_ATTENTION PLATFORM_SUPPORTS_FUSED_ATTENTION PLATFORM_SUPPORTS_MEM_EFF_ATTENTION SM53OrLater
        common_cuda: SM60OrLater SM70OrLater SM75OrLater SM80OrLater SM90OrLater TEST_CUDA TEST_CUDNN TEST_CUDNN_VERSION TEST_MAGMA
        common_cuda: TEST_MULTIGPU with_tf32_off""",
    "testing._internal.two_tensor": """
        custom_tensor: ConstantExtraMetadataTensor""",
    "utils._sympy.value_ranges": """
        numbers: IntInfinity NegativeIntInfinity int_oo""",
}

# Modules that only show what others have: what they are, then lines as an import statement would have them, `home: name name`. A name
# may be another one at home (`name=other`); `*=prefix_*` is all that begin so.
FACADES = {
    "__config__": """How the engine was built.
        torch_version: show parallel_info""",
    "_export": """What export is made of, under the names programs know.
        export._trace: capture_pre_autograd_graph""",
    "_higher_order_ops": """Operators that take functions: control flow, loops, calls of other operators.
        _higher_order_ops.associative_scan: associative_scan
        _higher_order_ops.auto_functionalize: auto_functionalized auto_functionalized_v2
        _higher_order_ops.cond: cond
        _higher_order_ops.map: map
        _higher_order_ops.out_dtype: out_dtype
        _higher_order_ops.scan: scan
        _higher_order_ops.while_loop: while_loop""",
    "_inductor": """The default back end under the name of PyTorch's: graphs become plans in C. Its many options are not there.
        _dynamo.backends.registry: compile list_mode_options list_options""",
    "_subclasses": """Tensors that stand for others: fake ones have sizes and types but no data.
        _subclasses.fake_tensor: DataDependentOutputException DynamicOutputShapeException FakeTensor FakeTensorMode
        _subclasses.fake_tensor: UnsupportedFakeTensorException""",
    "amp": """Mixed precision: autocast and the scaling of losses.
        amp.autocast_mode: autocast custom_bwd custom_fwd is_autocast_available _enter_autocast _exit_autocast
        amp.grad_scaler: GradScaler""",
    "compiler": """Questions that programs ask about capture.
        _compile: compile
        _dynamo: disable list_backends reset
        _dynamo.eval_frame: is_compiling is_dynamo_compiling set_stance""",
    "cpu.amp": """Old names of torch.amp, for the processor.
        amp._by_device: autocast=cpu_autocast GradScaler=cpu_GradScaler""",
    "cuda.amp": """Old names of torch.amp, for CUDA.
        amp._by_device: autocast=cuda_autocast GradScaler=cuda_GradScaler custom_bwd custom_fwd""",
    "fft": """Fourier transforms: the ops named fft_…, under their short names.
        _C._fft: *=fft_*""",
    "func": """Functions of functions.
        _functorch.eager_transforms: functionalize grad grad_and_value hessian jacfwd jacrev jvp linearize vjp vmap
        _functorch.functional_call: functional_call stack_module_state
        _functorch.make_functional: debug_unwrap replace_all_batch_norm_modules_""",
    "functorch": """The names under which functorch was a package of its own; loaded as torch, `import functorch` gives this.
        _functorch.eager_transforms: functionalize grad grad_and_value hessian jacfwd jacrev jvp vjp vmap
        _functorch.functional_call: functional_call stack_module_state
        _functorch.make_functional: FunctionalModule FunctionalModuleWithBuffers combine_state_for_ensemble make_functional
        _functorch.make_functional: make_functional_with_buffers
        fx.experimental.proxy_tensor: make_fx""",
    "functorch.compile": """Ahead-of-time autograd under its old names.
        _functorch: config
        _functorch.aot_autograd: aot_function aot_module aot_module_simplified compiled_function compiled_module
        _functorch.aot_autograd: get_aot_compilation_context get_aot_graph_name get_graph_being_compiled make_boxed_compiler
        _functorch.aot_autograd: make_boxed_func
        _functorch.compilers: debug_nop default_decompositions memory_efficient_fusion nnc_jit nop print_compile simple_ts_compile
        _functorch.compilers: ts_compile
        _functorch.partitioners: default_partition min_cut_rematerialization_partition""",
    "functorch.experimental": """What was tried out in functorch.
        _functorch.eager_transforms: functionalize hessian jacfwd jvp
        _functorch.make_functional: chunk_vmap replace_all_batch_norm_modules_""",
    "functorch.experimental.control_flow": """Control flow that graphs keep.
        _higher_order_ops: cond map""",
    "linalg": """Linear algebra: the ops named linalg_…, under their short names.
        _C._linalg: *=linalg_*
        _C: LinAlgError=_LinAlgError""",
    "nn.parallel": """Modules spread over devices: here there is one.
        nn.parallel.data_parallel: DataParallel""",
    "optim.adamw": """AdamW, which is Adam with another weight decay.
        optim.adam: AdamW adamw""",
    "signal": """Signal processing: windows.
        signal: windows""",
    "special": """Special functions: the ops named special_…, under their short names.
        _C._special: *=special_*""",
    "testing": """Comparing and making tensors in tests, as torch.testing does.
        testing._comparison: assert_close
        testing._creation: make_tensor
        testing._filecheck: FileCheck""",
    "version": """Which PyTorch this package answers for, and what it was built with.
        torch_version: __version__ cuda debug git_version hip xpu""",
}


def _lines(text):
    for line in text.split("\n")[1:]:
        path, _, names = line.strip().partition(": ")
        yield path, names.split()


def _members(home):
    """(module, names) of a family."""
    package = f"{home.rpartition('.')[0]}.".lstrip(".")
    return [(package + module, names) for module, names in _lines(FAMILIES[home])]


_family_of = {module: home for home in FAMILIES for module, _ in _members(home)}


def _contents(place):
    """What a module is, and the (home, names) it shows."""
    if place in FACADES:
        return FACADES[place].partition("\n")[0], list(_lines(FACADES[place]))
    home = _family_of[place]
    return None, [(home, names) for module, names in _members(home) if module == place]


def _find(path, names):
    """The module at `path`, or a part of the extension."""
    if path.startswith("_C."):
        return getattr(_C, path[3:])
    return __import__(f"{ROOT}.{path}", fromlist=names)


def _pairs(names, home):
    """Each name and what it is called at home."""
    for name in names:
        new, _, old = name.rpartition("=")
        if new == "*":
            yield from ((own[len(old) - 1:], own) for own in vars(home) if own.startswith(old[:-1]))
        else:
            yield new or old, old


class _Finder:
    """Makes the modules of the tables when they are imported. Not an importlib.abc finder: those take longer to import than Taper."""

    def find_spec(self, name, path=None, target=None):
        root, _, place = name.partition(".")
        if root != ROOT or not (place in _family_of or place in FACADES):
            return None
        spec = type(__spec__)(name, self, is_package=True)      # what its folder has, if there is one, and rows below it
        spec.submodule_search_locations += [f"{folder}/{name.rpartition('.')[2]}" for folder in path]
        return spec

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        def missing(name):
            raise AttributeError(f"module '{module.__name__}' has no attribute '{name}': Taper does not have it yet")

        doc, lines = _contents(module.__name__.partition(".")[2])
        module.__all__ = []
        for path, names in lines:
            home = _find(path, names)
            for name, own in _pairs(names, home):
                setattr(module, name, getattr(home, own))
                if not name.startswith("_"):
                    module.__all__.append(name)
        module.__doc__ = doc or home.__doc__
        module.__getattr__ = missing


def install():
    """In front of the finder of files, which would take a folder for a package without contents."""
    sys.meta_path.insert(0, _Finder())


def settle(home):
    """Called at the end of a family's file: what it defines bears the names of PyTorch's modules, which pickles and printed programs say."""
    file = sys.modules[home]
    for module, names in _members(home.partition(".")[2]):
        for name in names:
            value = getattr(file, name)
            if isinstance(value, (type, types.FunctionType)):
                value.__module__ = f"{ROOT}.{module}"
