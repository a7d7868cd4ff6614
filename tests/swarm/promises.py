"""Which other combinations must give the same bits, by docs/project/guarantees.md and by the texts of
the knobs (`tandem knobs explain`). Knobs without a rule may change bits; their jobs must reach about
the loss of a plain job."""

import dataclasses

import models


def _number(one, knob, default):
    try:
        return int(one.knobs.get(knob, default))
    except ValueError:
        return default


def is_on(one, knob):
    return one.knobs.get(knob) == "true"


def places(one):
    """Number of parts into which ranks and places divide a batch."""
    return one.ranks * max(1, _number(one, "execution_strategy.cpu_num", 1))


def _always(_):
    return True


def _two(one):
    return places(one) <= 2 or is_on(one, "deterministic")


def synchronous(one):
    return not is_on(one, "a_sync") or one.mode in ("local", "collective")


def _ps_flags(*names):
    return ["runtime_flags." + name for name in names]


@dataclasses.dataclass(frozen=True)
class Rule:
    """Settings that change no bit if the condition holds."""
    source: str  # heading of guarantees.md, or "knobs": the knob's own text
    settings: tuple
    holds: object = _always


RULES = [
    Rule("Memory plan and order", (
        "build_strategy.enable_inplace", "build_strategy.memory_optimize",
        "runtime_flags.eager_delete_tensor_gb", "execution_strategy.num_iteration_per_drop_scope",
        "execution_strategy.num_iteration_per_run", "execution_strategy.num_threads")),
    Rule("Transports", ("collective_transport", "runtime_flags.pserver_transport", "--tls")),
    Rule("Row cache and split messages",
         ("runtime_flags.row_cache_mb", "a_sync_configs.runtime_split_send_recv"),
         lambda one: one.knobs.get("runtime_flags.row_cache_versions", "0") == "0"
         and "table_rules" not in one.arguments),
    Rule("Reduce strategy", ("build_strategy.reduce_strategy", "build_strategy.fuse_broadcast_ops"),
         _two),
    Rule("Sharding", ("sharding", "sharding_configs.fuse_broadcast_MB"), _two),
    Rule("Deterministic jobs", (
        "fuse_all_reduce_ops", "fuse_grad_size_in_MB", "fuse_grad_size_in_TFLOPS",
        "last_comm_group_size_MB", "sync_nccl_allreduce", "nccl_comm_num", "allreduce_choice",
        "use_hierarchical_allreduce", "hierarchical_allreduce_inter_nranks",
        "hierarchical_allreduce_form"), _two),
    Rule("Tables larger than memory", ("runtime_flags.table_memory_mb", "runtime_flags.rocksdb_path")),
    Rule("Heter workers", ("--heter_workers", "a_sync_configs.heter_worker_device_guard", "device")),
    Rule("Elastic ranks", ("elastic", "--elastic")),
    Rule("Killed trainers and pservers (sync)", (
        "--max_restarts", "--durability", "--pserver_data_dir", "--keep_pushes_mb", "--standbys",
        "--replication", "--replicas", "--snapshot_keep", "--log_keep_mb", "--audit")),
    Rule("Rendezvous", ("--rendezvous",)),
    Rule("Wrong results", ("verify_replay",)),
    Rule("Wrong parameters", ("param_checksums",)),
    Rule("Trainer checkpoints", ("checkpoint.every_steps", "checkpoint.keep")),
    Rule("knobs", (  # switches of speed, memory and reports whose texts say nothing about bits
        "build_strategy.enable_sequential_execution", "build_strategy.cache_runtime_context",
        "build_strategy.enable_backward_optimizer_op_deps", "build_strategy.debug_graphviz_path",
        "build_strategy.fuse_all_optimizer_ops", "build_strategy.enable_addto",
        "build_strategy.fuse_elewise_add_act_ops", "build_strategy.fuse_bn_act_ops",
        "build_strategy.fuse_bn_add_act_ops", "build_strategy.fuse_relu_depthwise_conv",
        "build_strategy.enable_auto_fusion", "build_strategy.fused_attention", "recompute",
        "recompute_configs.checkpoints",
        "execution_strategy.use_thread_barrier", "execution_strategy.cuda_graph",
        "conv_search_cache", "compilation_cache_dir", "cudnn_batchnorm_spatial_persistent",
        *_ps_flags("local_exe_sub_scope_limit", "pe_profile_fname", "benchmark", "check_nan_inf",
                   "cpu_deterministic", "use_double_buffer", "use_dali", "enable_rpc_profiler",
                   "fraction_of_gpu_memory_to_use", "initial_gpu_memory_in_mb",
                   "reallocate_gpu_memory_in_mb", "gpu_memory_limit_mb",
                   "enable_cublas_tensor_op_math", "nccl_socket_ifname", "nccl_p2p_disable",
                   "nccl_ib_disable", "nccl_ib_cuda_support", "nccl_debug", "nccl_launch_mode",
                   "slice_var_up", "min_block_size", "dispatcher", "rpc_deadline_ms",
                   "rpc_retry_times", "rpc_send_thread_num", "rpc_get_thread_num",
                   "rpc_prefetch_thread_num", "worker_update_interval_secs", "nonfinite_gradients"),
        "a_sync_configs.launch_barrier")),
    Rule("fields of the job", (
        "data.queue_capacity", "data.reader_threads", "data.max_bad_records", "eval_every_epochs",
        "log_every_steps", "profile.dir", "profile.first_step", "profile.steps",
        "profile.op_detail", "--strategy_out", "--tensorboard_dir", "--log_format")),
]
# Not headings of guarantees.md.
OTHER_SOURCES = {"knobs", "fields of the job"}

# Settings that make another optimisation on purpose, so that the loss need not be near.
OTHER_OPTIMISATION = {
    "build_strategy.gradient_scale_strategy", "localsgd", "adaptive_localsgd", "dgc", "lars", "lamb",
    "amp", "gradient_merge", "runtime_flags.reader_queue_speed_test_mode", "loss_gradient", "auto",
    "a_sync_configs.enable_dc_asgd", "a_sync_configs.is_sgd_optimizer", "a_sync_configs.k_steps",
    "table_rules"}
# Settings with which two runs of one job may differ.
NOT_REPEATABLE = {"auto", "cudnn_exhaustive_search"}


def settings_of(one):
    """All settings of a combination, by name."""
    return {**one.arguments, **one.launch, **one.flags, **one.job, **one.knobs}


def repeatable(one):
    by_model = one.knobs.get("allreduce_choice") == "ByModel" and places(one) > 2
    return synchronous(one) and not by_model and not any(is_on(one, k) for k in NOT_REPEATABLE)


def without(one, names):
    """The combination without the named settings."""
    def rest(table):
        return {name: value for name, value in table.items() if name not in names}
    return one.copy(arguments=rest(one.arguments), launch=rest(one.launch), flags=rest(one.flags),
                    job=rest(one.job), knobs=rest(one.knobs))


def neutral(one):
    """Names of the settings that must not change a bit of this combination."""
    names = {name for rule in RULES if rule.holds(one) for name in rule.settings}
    if not is_on(one, "pipeline"):
        names.add("model.sections")
    return names & set(settings_of(one))


def _without_knobs_of_servers(one):
    return without(one, {name for name in one.knobs if name.startswith("a_sync_configs.")})


def _to_local(one, **knobs):
    other = _without_knobs_of_servers(one.copy(mode="local", ranks=1, servers=0))
    if "batch_size" in other.job:
        size = int(other.job.pop("batch_size")) * places(one)
        other.job["global_batch_size"] = str(size)
    other.knobs.pop("execution_strategy.cpu_num", None)
    other.knobs.update(knobs)
    return other


def _one_server_fewer(one):
    if one.mode == "pserver" and one.servers > 1 and "--heter_workers" not in one.launch:
        yield "Pserver sync and collective", one.copy(servers=1)


def _rows_matter(one):
    """Whether sparse gradients differ from the same gradients sent as dense ones, as collective mode
    sends them: penalties are those of the rows of a batch, and lazy_mode skips the other rows."""
    tables = models.BY_NAME[one.model].tables
    return tables and any(one.optimizer.get(name, "0") not in ("0", "false")
                          for name in ("l1_decay", "l2_decay", "lazy_mode"))


def _modes(one):
    """The same job in other modes."""
    amp = is_on(one, "amp") and not is_on(one, "deterministic")
    whole = one.arguments.get("distributed", "0") == "0" and "table_rules" not in one.arguments
    if amp or not _two(one) or not whole or _rows_matter(one):
        return
    if one.mode == "collective":
        yield "Pserver sync and collective", one.copy(mode="pserver", servers=2)
    elif one.mode == "pserver":
        yield "Pserver sync and collective", _without_knobs_of_servers(
            one.copy(mode="collective", servers=0))
    elif one.mode == "hybrid":
        yield "Hybrid mode", _without_knobs_of_servers(one.copy(mode="collective", servers=0))


def _one_process(one):
    model = models.BY_NAME[one.model]
    merges = {"batch_merge_repeats", "gradient_merge", "pipeline", "localsgd", "adaptive_localsgd",
              "dgc", "fp16_allreduce", "amp", "build_strategy.gradient_scale_strategy", "elastic"}
    whole = one.arguments.get("distributed", "0") == "0" and "table_rules" not in one.arguments
    if is_on(one, "deterministic"):
        if not is_on(one, "pipeline"):
            yield "Deterministic jobs", _to_local(one)
    elif (places(one) == 2 and one.job.get("threads") == "1" and not merges & set(one.knobs) and whole
          and one.job.get("data.remainder") != "JOIN" and not model.random and not model.batch_norm
          and not _rows_matter(one)):
        yield "One process", _to_local(one, batch_merge_repeats="2")
        yield "One process", _to_local(one, **{"execution_strategy.cpu_num": "2"})
    if is_on(one, "pipeline"):
        sections = int(one.job.get("model.sections", one.ranks)) or one.ranks
        if sections == one.ranks and one.job.get("threads") == "1":
            micro = one.knobs.get("pipeline_configs.micro_batch", "1")
            other = without(one, {"pipeline", "pipeline_configs.micro_batch", "model.sections"})
            yield "Pipeline", _to_local(other, batch_merge_repeats=micro).copy()


def references(one, fits):
    """Pairs of a reason and a combination whose parameters must have the same bits. `fits(knob, mode)`
    says whether a knob has a meaning in a mode."""
    if not repeatable(one):
        return []
    plain = without(one, neutral(one)).copy(as_flags=False)
    found = [("the same settings without " + (", ".join(sorted(neutral(one))) or "changes"), plain)]
    for make in (_one_server_fewer, _modes, _one_process):
        for reason, other in make(plain):
            if all(fits(knob, other.mode) for knob in other.knobs):
                found.append((reason, other))
    return found


def plain_job(one):
    """One process without knobs: the reference of losses."""
    job = {name: value for name, value in one.job.items()
           if name in ("global_batch_size", "batch_size", "seed", "threads", "data.shuffle",
                       "data.remainder", "data.train_samples_max")}
    other = one.copy(job=job, knobs={}, launch={}, flags={}, as_flags=False)
    other = without(other, {"distributed", "table_rules", "device"})
    return _to_local(other.copy(ranks=places(one)))


def loss_is_comparable(one):
    return not OTHER_OPTIMISATION & set(settings_of(one))


def resumable(one):
    """Whether a job that continues from a checkpoint must end with the bits of the whole job."""
    steps = _number(one, "localsgd_configs.k_steps", 1)
    local = is_on(one, "localsgd") and steps > 0
    compressed = is_on(one, "dgc") and places(one) > 1
    return (repeatable(one) and not local and not compressed
            and not is_on(one, "adaptive_localsgd")
            and not is_on(one, "runtime_flags.reader_queue_speed_test_mode"))
