public import CloakroomWire
import NIOCore

/// The fields of a WebSocket handshake that the upstream must receive exactly once (RFC 6455 §4.2.1).
public enum WebSocketFields {
    private static let key = FieldNameSet(["Sec-WebSocket-Key"])
    private static let accept = FieldNameSet(["Sec-WebSocket-Accept"])
    private static let version = FieldNameSet(["Sec-WebSocket-Version"])

    /// Removes fields that the client may not set: `Sec-WebSocket-Accept`, and the key if the gateway writes one.
    /// - Parameter writesKey: Whether the gateway writes the key, because the client's protocol has none (RFC 8441 §5).
    /// - Returns: Whether the remaining fields are unambiguous: at most one key and one version, in their own spelling.
    public static func settle(_ head: inout RequestHead, writesKey: Bool) -> Bool {
        let buffer = head.bytes
        let bytes = buffer.readableBytesUInt8Span
        var (keys, versions) = (0, 0)
        for index in head.fields.indices where !head.fields[index].isStripped && head.fields[index].name == .other {
            let name = head.fields[index].nameRange
            if accept.contains(bytes, name) {
                head.fields[index].isStripped = true
            } else if key.contains(bytes, name) {
                if writesKey { head.fields[index].isStripped = true } else { keys += 1 }
            } else if version.contains(bytes, name) {
                versions += 1
            }
        }
        return keys <= 1 && versions <= 1
    }
}
