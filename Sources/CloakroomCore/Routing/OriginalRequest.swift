package import CloakroomWire
import NIOCore

/// The request that another proxy asks about: its method, target and host, in fields or in the request line.
///
/// Each kind of proxy has its own fields. Clients can send those of the other kinds, so they have no meaning.
package enum OriginalRequest {
    /// Replaces the received request line and host by the original ones. They stay where they are in the head: only
    /// positions change.
    /// - Parameter maxTarget: The maximum length of a target.
    /// - Returns: `false` unless each field of the proxy exists once and is valid.
    package static func apply(
        to head: inout RequestHead, of proxy: ForwardAuthConfiguration.Proxy, maxTarget: Int
    ) -> Bool {
        let buffer = head.bytes
        let bytes = buffer.readableBytesUInt8Span
        var (method, target) = (SingletonField.value(head.method), SingletonField.value(head.target))
        var (host, scheme, client) = (SingletonField.absent, SingletonField.absent, SingletonField.absent)
        let names = fieldNames(of: proxy)
        if names != nil { (method, target) = (.absent, .absent) }
        for index in head.fields.indices {
            let field = head.fields[index]
            switch field.name {
            case .host where names == nil: host.add(field.valueRange)
            case .xForwardedHost where names != nil:
                host.add(field.valueRange)
                head.fields[index].name = .host
            case .xForwardedProto: scheme.add(field.valueRange)
            case .xForwardedFor: client.add(field.valueRange)
            case .host, .xForwardedHost, .xForwardedPort, .xForwardedServer, .xRealIP, .forwarded, .via, .xRequestID,
                .traceparent, .tracestate:
                // The client may have written it.
                (head.fields[index].name, head.fields[index].isStripped) = (.other, true)
            case .other:
                guard let names else { continue }
                if ASCII.equals(bytes, field.nameRange, names.method) {
                    method.add(field.valueRange)
                } else if ASCII.equals(bytes, field.nameRange, names.target) {
                    target.add(field.valueRange)
                } else {
                    continue
                }
                // Otherwise the policy would search all of its names for them: 1,400 instructions each.
                head.fields[index].isStripped = true
            default: break
            }
        }
        guard case .value(let method) = method, case .value(let target) = target, case .value = host,
            case .value(let scheme) = scheme, case .value = client, !method.isEmpty, target.count <= maxTarget,
            (method.start..<method.end).allSatisfy({ Byte.isToken(bytes[$0]) }),
            ASCII.equals(bytes, scheme, "https") || ASCII.equals(bytes, scheme, "http"),
            ClientAddress.key(head, trusted: []) != nil
        else { return false }
        (head.method, head.target) = (method, target)
        return true
    }

    /// The fields with method and target, in lower case; `nil` if the request line has them.
    private static func fieldNames(
        of proxy: ForwardAuthConfiguration.Proxy
    ) -> (method: StaticString, target: StaticString)? {
        switch proxy {
        case .nginx: ("x-original-method", "x-original-uri")
        case .traefik, .caddy: ("x-forwarded-method", "x-forwarded-uri")
        case .envoy: nil
        }
    }

    private static let webSocketNames = ["Sec-WebSocket-Key", "Sec-WebSocket-Version"]
    private static let webSocket = FieldNameSet(webSocketNames)
    private static let webSocketFilter = FieldNameSet.Filter(webSocketNames)

    /// What a client asks to change the protocol of its connection to.
    package enum Upgrade {
        case none, webSocket
        /// Another protocol, or several. After the change nothing is decided about what the client sends, and HTTP/2 carries
        /// requests (RFC 7540 §3.2).
        case other
    }

    /// Reads the upgrade of a client. Most proxies do not send `Upgrade`, which is for one hop; what one of them sends is
    /// enough, also without `Connection`.
    package static func upgrade(in head: borrowing RequestHead) -> Upgrade {
        let bytes = head.bytes.readableBytesUInt8Span
        let filter = webSocketFilter
        var (isWebSocket, hasField) = (false, false)
        for field in head.fields {
            switch field.name {
            case .other:
                if filter.mayContain(field, of: bytes), webSocket.index(bytes, field.nameRange) != nil {
                    isWebSocket = true
                }
            case .upgrade:
                guard !hasField, ASCII.equals(bytes, field.valueRange, "websocket") else { return .other }
                (isWebSocket, hasField) = (true, true)
            case .http2Settings: return .other
            default: break
            }
        }
        return isWebSocket ? .webSocket : .none
    }
}
