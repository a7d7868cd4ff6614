"""Calls to one server as a client makes them: one channel, and requests from proto/."""

import grpc
import numpy
from tandem_pserver.messages import METHODS, NUMBER

import plan as plans

SERVICES = ("tandem.ParameterServer", "tandem.pserver.v1.ParameterServer")
RENAMED = {"OpenLane": "OpenShmChannel", "HoldPushes": "PausePushes", "TakeCut": "TakeSnapshot",
           "RefuseBuckets": "SetDraining"}
OPTIONS = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1),
           ("grpc.initial_reconnect_backoff_ms", 50), ("grpc.min_reconnect_backoff_ms", 5000),
           ("grpc.max_reconnect_backoff_ms", 300), ("grpc.use_local_subchannel_pool", 1)]


class Channel:
    """The calls of one client to one server, by one of the two names of the service."""

    def __init__(self, address, service=0):
        self._channel = grpc.insecure_channel(address, OPTIONS)
        self._calls = {}
        for name, (request, reply) in METHODS.items():
            method = RENAMED.get(name, name) if service else name
            self._calls[name] = self._channel.unary_unary(
                f"/{SERVICES[service]}/{method}", request_serializer=request.SerializeToString,
                response_deserializer=reply.FromString)

    def start(self, name, request, seconds):
        return self._calls[name].future(request, timeout=seconds)

    def close(self):
        self._channel.close()


def outcome(future):
    """Returns (reply, "", "") or (None, code, message)."""
    try:
        return future.result(), "", ""
    except grpc.RpcError as error:
        return None, error.code().name, error.details() or ""
    except grpc.FutureCancelledError:
        return None, "CANCELLED", ""


def request(name, **fields):
    return METHODS[name][0](**fields)


def configure_request(plan, server, caller):
    """The configuration of this server's part of the job."""
    made = request("Configure", protocol=1, trainers=plan["trainers"],
                   mode=NUMBER["UPDATE_MODE_" + plan["mode"].upper()], keeps_pushes=False,
                   step_timeout_ms=20000, **caller)
    made.optimizer.type = "sgd"
    count = plan["servers"]
    for variable, numel in variables(plan):
        made.slice.add(variable=variable, dims=[numel * count], offset=server * numel, numel=numel,
                       dtype=NUMBER["F32"])
    for name, height, dim, rules in tables(plan):
        table = made.table.add(variable=name, dims=(height, dim), seed=3, rules=rules,
                               bucket_begin=plans.first_bucket(server, count),
                               bucket_end=plans.first_bucket(server + 1, count))
        table.init.kind, table.init.a = 0, 0.0  # constant
    return made


def variables(plan):
    """Each server has one slice of each of these variables."""
    return (("ledger", plan["slots"]), ("twin", plan["slots"]), ("one", 1),
            ("large", plan["large"]))


def tables(plan):
    yield "rows", plans.HEIGHT, plans.DIM, ""
    if plan["mode"] == "a_sync":
        rules = f"ttl={plans.FADING_TTL} shrink_every={plans.FADING_EVERY}"
        yield "fading", plans.FADING_HEIGHT, 2, rules


def add_slice(to, plan, server, variable, values):
    numel = dict(variables(plan))[variable]
    piece = to.add(variable=variable, offset=server * numel)
    piece.tensor.dtype = NUMBER["F32"]
    piece.tensor.dims.append(len(values))
    piece.tensor.content = values.astype("<f4").tobytes()


def add_rows(to, table, ids, values):
    piece = to.add(variable=table)
    piece.tensor.dtype = NUMBER["I64"]
    piece.tensor.dims.append(len(ids))
    piece.tensor.content = numpy.asarray(ids, "<i8").tobytes()
    piece = to.add(variable=table)
    piece.tensor.dtype = NUMBER["F32"]
    piece.tensor.dims.extend(values.shape)
    piece.tensor.content = values.astype("<f4").tobytes()


def minus_one_at(length, index):
    values = numpy.zeros(length, numpy.float32)
    values[index] = -1.0
    return values


def applied(values):
    """The bit set of the elements that are not zero, and {element: value} of those above one."""
    flags = values != 0
    packed = numpy.packbits(flags, bitorder="little").tobytes()
    odd = numpy.nonzero(flags & (values != 1.0))[0]
    return int.from_bytes(packed, "little"), {int(i): float(values[i]) for i in odd[:16]}


def array(piece):
    return numpy.frombuffer(piece.tensor.content, "<f4")
