import CloakroomWire
import NIOCore
import NIOHPACK

/// Reason that the fields of an HTTP/2 request are rejected.
enum HTTP2HeadError: Error, Equatable {
    /// The request is malformed: a stream error (RFC 9113 §8.1.1).
    case malformed
    /// The head exceeds a limit: an error response is sent.
    case tooLarge(WireError)

    init(_ error: WireError) {
        switch error {
        case .headTooLarge, .tooManyFields, .targetTooLong: self = .tooLarge(error)
        default: self = .malformed
        }
    }
}

/// Converts the fields of an HTTP/2 request to the head representation of HTTP/1.1, with the authority as `Host`.
/// Fields that would have a different meaning there are rejected (RFC 9113 §8.2, §8.3, §10.3).
struct HTTP2RequestHead {
    private let builder: RequestHeadBuilder
    private var method: String?
    private var scheme: String?
    private var authority: String?
    private var path: String?
    private var protocolName: String?
    private var cookie: String?
    private var hasHost = false
    /// The protocol of an extended CONNECT (RFC 8441 §4); `nil` for an ordinary request.
    var tunnelProtocol: String? { protocolName }

    init(limits: HeadLimits) {
        builder = RequestHeadBuilder(limits: limits)
    }

    /// - Parameter head: Reset by the caller. Its storage is reused if it has no other owner.
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

    /// The HPACK decoder replaces invalid UTF-8 with U+FFFD. The original bytes are lost, so the request is rejected
    /// instead of forwarded changed.
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
            // Plain CONNECT has neither scheme nor path (RFC 9113 §8.5). It is rejected later, as in HTTP/1.1.
            guard scheme == nil, path == nil, let authority else { throw .requestLine }
            try builder.begin(method: method, target: authority, into: &head)
        } else {
            // Extended CONNECT has all pseudo-fields of a request (RFC 8441 §4).
            guard protocolName == nil || (method == "CONNECT" && authority != nil) else { throw .requestLine }
            guard scheme == "https" || scheme == "http", let path,
                path.utf8.first == UInt8(ascii: "/") || (path == "*" && method == "OPTIONS")
            else { throw .requestLine }
            // It is forwarded as an HTTP/1.1 upgrade, which uses GET (RFC 6455 §4.1).
            try builder.begin(method: protocolName == nil ? method : "GET", target: path, into: &head)
        }
        if let authority { _ = try builder.append(name: "host", value: authority, into: &head) }
    }

    // MARK: - Fields

    /// Parses the trailer section of a request; `nil` if it has no field.
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
            // A `host` field must equal `:authority` (RFC 9113 §8.3.1).
            guard value == authority else { throw .host }
            builder.removeLast(from: &head)
        case .cookie:
            // All cookie fields are joined into one at the end (RFC 9113 §8.2.3).
            builder.removeLast(from: &head)
            guard cookie != nil else {
                cookie = value
                break
            }
            // Appended in place: creating a new string for each field would take quadratic time.
            cookie?.append("; ")
            cookie?.append(value)
        default: break
        }
    }
}
