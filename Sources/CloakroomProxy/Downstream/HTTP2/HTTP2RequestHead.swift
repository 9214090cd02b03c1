import CloakroomWire
import NIOCore
import NIOHPACK

/// Why the fields of a request in HTTP/2 are refused.
enum HTTP2HeadError: Error, Equatable {
    /// The request is malformed: a stream error (RFC 9113 §8.1.1).
    case malformed
    /// It is larger than a head may be: it is answered.
    case tooLarge(WireError)

    init(_ error: WireError) {
        switch error {
        case .headTooLarge, .tooManyFields, .targetTooLong: self = .tooLarge(error)
        default: self = .malformed
        }
    }
}

/// Writes the fields of a request in HTTP/2 as the head that everything behind it knows: the one of HTTP/1.1, with the
/// authority as `Host`. What would mean something else there is refused (RFC 9113 §8.2, §8.3, §10.3).
struct HTTP2RequestHead {
    private let builder: RequestHeadBuilder
    private var method: String?
    private var scheme: String?
    private var authority: String?
    private var path: String?
    private var protocolName: String?
    private var cookie: String?
    private var hasHost = false
    /// The protocol of a tunnel that is asked for (RFC 8441 §4); `nil` for a plain request.
    var tunnelProtocol: String? { protocolName }

    init(limits: HeadLimits) {
        builder = RequestHeadBuilder(limits: limits)
    }

    /// - Parameter head: Reset by the caller. Its bytes are used again if nobody else holds them.
    mutating func write(_ headers: HPACKHeaders, into head: inout RequestHead) throws(HTTP2HeadError) {
        do throws(WireError) {
            var isStarted = false
            for (name, value, _) in headers {
                if name.utf8.first == UInt8(ascii: ":") {
                    guard !isStarted else { throw .fieldName }
                    try takePseudoField(name, value)
                } else {
                    if !isStarted { try begin(&head) }
                    isStarted = true
                    try write(name, value, into: &head)
                }
            }
            if !isStarted { try begin(&head) }
            guard authority != nil || hasHost else { throw .host }
            if let cookie { _ = try builder.append(name: "cookie", value: cookie, into: &head) }
            builder.finish(&head)
            if hasReplacement(head.bytes) { throw .fieldValue }
        } catch {
            throw HTTP2HeadError(error)
        }
    }

    /// Bytes that are no UTF-8 come as replacement characters from below: what the client sent can no longer be told, so it
    /// is refused rather than passed on changed.
    private func hasReplacement(_ bytes: ByteBuffer) -> Bool {
        var view = bytes.readableBytesView[...]
        while let index = view.firstIndex(of: 0xef) {
            if view[index...].starts(with: "\u{fffd}".utf8) { return true }
            view = view[view.index(after: index)...]
        }
        return false
    }

    // MARK: - Pseudo-fields (RFC 9113 §8.3.1)

    private mutating func takePseudoField(_ name: String, _ value: String) throws(WireError) {
        switch name {
        case ":method": try Self.set(&method, value)
        case ":scheme": try Self.set(&scheme, value)
        case ":authority": try Self.set(&authority, value)
        case ":path": try Self.set(&path, value)
        case ":protocol": try Self.set(&protocolName, value)
        default: throw .fieldName
        }
    }

    private static func set(_ field: inout String?, _ value: String) throws(WireError) {
        guard field == nil else { throw .fieldName }
        field = value
    }

    private func begin(_ head: inout RequestHead) throws(WireError) {
        guard let method else { throw .requestLine }
        if method == "CONNECT", protocolName == nil {
            // Neither scheme nor path (RFC 9113 §8.5). It is refused later, as in HTTP/1.1.
            guard scheme == nil, path == nil, let authority else { throw .requestLine }
            try builder.begin(method: method, target: authority, into: &head)
        } else {
            // A tunnel for another protocol has everything that a request has (RFC 8441 §4).
            guard protocolName == nil || (method == "CONNECT" && authority != nil) else { throw .requestLine }
            guard scheme == "https" || scheme == "http", let path,
                path.utf8.first == UInt8(ascii: "/") || (path == "*" && method == "OPTIONS")
            else { throw .requestLine }
            // Upstream it is an upgrade, which goes with GET (RFC 6455 §4.1).
            try builder.begin(method: protocolName == nil ? method : "GET", target: path, into: &head)
        }
        if let authority { _ = try builder.append(name: "host", value: authority, into: &head) }
    }

    // MARK: - Fields

    /// The trailers of a request; `nil` if there is no field among them.
    func trailers(_ headers: HPACKHeaders) throws(HTTP2HeadError) -> TrailerSection? {
        guard !headers.isEmpty else { return nil }
        var section = RequestHead()
        do throws(WireError) {
            for (name, value, _) in headers {
                switch try builder.append(name: name, value: value, into: &section) {
                case .connection, .keepAlive, .proxyConnection, .transferEncoding, .upgrade, .te: throw .fieldName
                default: break
                }
            }
            return try TrailerSection(lines: section.bytes)
        } catch {
            throw HTTP2HeadError.malformed
        }
    }

    private mutating func write(_ name: String, _ value: String, into head: inout RequestHead) throws(WireError) {
        switch try builder.append(name: name, value: value, into: &head) {
        case .connection, .keepAlive, .proxyConnection, .transferEncoding, .upgrade, .http2Settings:
            throw .fieldName
        case .te:
            guard value == "trailers" else { throw .fieldValue }
        case .host:
            guard let authority else { return hasHost = true }
            // It says the same once more (RFC 9113 §8.3.1).
            guard value == authority else { throw .host }
            builder.removeLast(from: &head)
        case .cookie:
            // Written as one field at the end (RFC 9113 §8.2.3).
            builder.removeLast(from: &head)
            guard cookie != nil else {
                cookie = value
                break
            }
            // In place: a new text for each would cost the product of their number and their length.
            cookie?.append("; ")
            cookie?.append(value)
        default: break
        }
    }
}
