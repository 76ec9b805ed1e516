"""Orchestra's messages as Google's Protobuf library for Python reads and writes them.

The schema below is a table of names, tags and types of its own: no line of it comes from mcpjoin's plugin.proto. Each line
that is read is a JSON array, and is answered by one JSON value:

  ["decode", MESSAGE, HEX]     the message as JSON, with the names of the schema; what is not known is an error
  ["encode", MESSAGE, OBJECT]  the message that the object is, as hex
"""

import json
import sys

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf import struct_pb2, timestamp_pb2

PACKAGE = "orchestra.plugin.v1"

# MESSAGE: TAG NAME TYPE, ...   `*` before a type is repeated, `<` a map of strings, `|` a member of the oneof.
TABLE = """
PluginManifest: 1 id str, 2 version str, 3 language str, 4 provides_tools *str, 5 provides_events *str, 6 provides_storage *str, 7 provides_transport *str, 8 provides_ai *str, 9 needs_storage *str, 10 needs_events *str, 11 needs_ai *str, 12 needs_tools *str, 13 description str, 14 author str, 15 binary str, 16 args *str, 17 env <, 18 provides_prompts *str
RegistrationResult: 1 accepted bool, 2 reject_reason str
BootRequest: 1 config <
BootResult: 1 ready bool, 2 error str
ShutdownRequest: 1 timeout_seconds i32
ShutdownResult: 1 clean bool
HealthRequest:
HealthResult: 1 status enum, 2 message str, 3 details <
ToolRequest: 1 tool_name str, 2 arguments Struct, 3 caller_plugin str, 4 trace_parent str, 5 provider str, 6 session_id str
ToolResponse: 1 success bool, 2 result Struct, 3 error_code str, 4 error_message str
ListToolsRequest:
ListToolsResponse: 1 tools *ToolDefinition
ToolDefinition: 1 name str, 2 description str, 3 input_schema Struct
PromptGetRequest: 1 prompt_name str, 2 arguments <
PromptGetResponse: 1 description str, 2 messages *PromptMessage
ListPromptsRequest:
ListPromptsResponse: 1 prompts *PromptDefinition
PromptDefinition: 1 name str, 2 description str, 3 arguments *PromptArgument
PromptArgument: 1 name str, 2 description str, 3 required bool
PromptMessage: 1 role str, 2 content ContentBlock
ContentBlock: 1 type str, 2 text str
StorageReadRequest: 1 path str, 2 storage_type str
StorageReadResponse: 1 content bytes, 2 metadata Struct, 3 version i64
StorageWriteRequest: 1 path str, 2 content bytes, 3 metadata Struct, 4 expected_version i64, 5 storage_type str
StorageWriteResponse: 1 success bool, 2 new_version i64, 3 error str
StorageDeleteRequest: 1 path str, 2 storage_type str
StorageDeleteResponse: 1 success bool
StorageListRequest: 1 prefix str, 2 pattern str, 3 storage_type str
StorageListResponse: 1 entries *StorageEntry
StorageEntry: 1 path str, 2 size i64, 3 version i64, 4 modified_at Timestamp
StreamStart: 1 stream_id str, 2 tool_name str, 3 arguments Struct, 4 caller_plugin str
StreamCancel: 1 stream_id str
StreamChunk: 1 stream_id str, 2 data bytes, 3 content_type str, 4 sequence i64
StreamEnd: 1 stream_id str, 2 success bool, 3 error_code str, 4 error_message str, 5 total_chunks i64
Subscribe: 1 subscription_id str, 2 topic str, 3 filters <
Unsubscribe: 1 subscription_id str
Publish: 1 topic str, 2 event_type str, 3 payload Struct, 4 source_plugin str
EventDelivery: 1 subscription_id str, 2 topic str, 3 event_type str, 4 payload Struct, 5 source_plugin str, 6 timestamp Timestamp
PluginRequest: 1 request_id str, 10 register |PluginManifest, 11 boot |BootRequest, 12 shutdown |ShutdownRequest, 13 health |HealthRequest, 20 tool_call |ToolRequest, 21 list_tools |ListToolsRequest, 22 list_prompts |ListPromptsRequest, 23 prompt_get |PromptGetRequest, 30 storage_read |StorageReadRequest, 31 storage_write |StorageWriteRequest, 32 storage_delete |StorageDeleteRequest, 33 storage_list |StorageListRequest, 40 stream_start |StreamStart, 41 stream_cancel |StreamCancel, 50 subscribe |Subscribe, 51 unsubscribe |Unsubscribe, 52 publish |Publish
PluginResponse: 1 request_id str, 10 register |RegistrationResult, 11 boot |BootResult, 12 shutdown |ShutdownResult, 13 health |HealthResult, 20 tool_call |ToolResponse, 21 list_tools |ListToolsResponse, 22 list_prompts |ListPromptsResponse, 23 prompt_get |PromptGetResponse, 30 storage_read |StorageReadResponse, 31 storage_write |StorageWriteResponse, 32 storage_delete |StorageDeleteResponse, 33 storage_list |StorageListResponse, 40 stream_chunk |StreamChunk, 41 stream_end |StreamEnd, 50 event_delivery |EventDelivery
"""

FIELD = descriptor_pb2.FieldDescriptorProto
SCALARS = {
    "str": FIELD.TYPE_STRING,
    "bool": FIELD.TYPE_BOOL,
    "bytes": FIELD.TYPE_BYTES,
    "i32": FIELD.TYPE_INT32,
    "i64": FIELD.TYPE_INT64,
}
GOOGLE = {"Struct", "Timestamp"}


def field_of(message, tag, name, kind):
    field = message.field.add(name=name, number=tag, label=FIELD.LABEL_OPTIONAL)
    if kind.startswith("|"):
        if not message.oneof_decl:
            message.oneof_decl.add(name="body")
        field.oneof_index = 0
        kind = kind[1:]
    if kind.startswith("*"):
        field.label = FIELD.LABEL_REPEATED
        kind = kind[1:]
    if kind == "<":
        entry_name = "".join(word.capitalize() for word in name.split("_")) + "Entry"
        entry = message.nested_type.add(name=entry_name)
        entry.options.map_entry = True
        for number, part in ((1, "key"), (2, "value")):
            entry.field.add(name=part, number=number, label=FIELD.LABEL_OPTIONAL, type=FIELD.TYPE_STRING)
        field.label = FIELD.LABEL_REPEATED
        field.type = FIELD.TYPE_MESSAGE
        field.type_name = f".{PACKAGE}.{message.name}.{entry_name}"
    elif kind == "enum":
        status = message.enum_type.add(name="Status")
        for number, word in enumerate(("UNSPECIFIED", "HEALTHY", "DEGRADED", "UNHEALTHY")):
            status.value.add(name=f"STATUS_{word}", number=number)
        field.type = FIELD.TYPE_ENUM
        field.type_name = f".{PACKAGE}.{message.name}.Status"
    elif kind in SCALARS:
        field.type = SCALARS[kind]
    else:
        field.type = FIELD.TYPE_MESSAGE
        field.type_name = f".google.protobuf.{kind}" if kind in GOOGLE else f".{PACKAGE}.{kind}"


def messages():
    file = descriptor_pb2.FileDescriptorProto(name="table.proto", package=PACKAGE, syntax="proto3")
    file.dependency.extend(["google/protobuf/struct.proto", "google/protobuf/timestamp.proto"])
    for line in TABLE.strip().splitlines():
        name, _, fields = line.partition(":")
        message = file.message_type.add(name=name)
        for field in filter(None, (part.strip() for part in fields.split(","))):
            tag, field_name, kind = field.split(" ")
            field_of(message, int(tag), field_name, kind)
    pool = descriptor_pool.DescriptorPool()
    for known in (struct_pb2, timestamp_pb2):
        pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return pool


def answer(words, pool):
    name = f"{PACKAGE}.{words[1]}"
    message = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))()
    if words[0] == "decode":
        message.ParseFromString(bytes.fromhex(words[2]))
        known = message_factory.GetMessageClass(message.DESCRIPTOR)()
        known.CopyFrom(message)
        known.DiscardUnknownFields()
        if known.ByteSize() != message.ByteSize():
            raise ValueError("it has fields that the table does not have")
        return json_format.MessageToDict(message, preserving_proto_field_name=True)
    json_format.ParseDict(words[2], message)
    return message.SerializeToString(deterministic=True).hex()


def main():
    pool = messages()
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line), pool)), flush=True)


main()
