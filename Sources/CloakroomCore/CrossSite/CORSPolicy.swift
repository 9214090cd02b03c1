public import CloakroomWire
import NIOCore

/// Tells browsers which other origins' pages may read answers (the Fetch standard, §3.2, CORS).
///
/// Origins are named one by one, never `*`: answers depend on the session's cookie. That cookie is for the same site only,
/// so what is served by this are sibling origins, `https://app.example.com` beside `https://api.example.com`.
///
/// Immutable; a class for the same reason as ``RequestHeaderPolicy``.
public final class CORSPolicy: Sendable {
    /// What the origin of a request is to the policy.
    public enum OriginMatch: Sendable, Equatable {
        /// Nothing is said: CORS is off, or the request was not looked at.
        case notEvaluated
        /// There is none, or it is not on the list.
        case notAllowed
        /// It is the one with this index.
        case allowed(Int)
    }

    /// Whether there are other origins at all.
    public let isEnabled: Bool
    private let origins: [WebOrigin]
    /// For each origin, the lines that go with every answer to it.
    private let lines: [[UInt8]]
    /// For each origin, the lines of the answer to a preflight that are the same for every path.
    private let preflightLines: [[UInt8]]
    private let notAllowed: FieldNameSet

    /// As many names of fields are allowed at once; a page that asks for more is not asking for itself.
    static let maxRequestedHeaders = 64
    /// What all answers depend on, so that no cache gives one origin's to another.
    private static let varyLine = Array("Vary: Origin\r\n".utf8)
    private static let preflightVaryLine =
        Array("Vary: Origin, Access-Control-Request-Method, Access-Control-Request-Headers\r\n".utf8)

    /// Makes the policy. Origins that are none are left out.
    /// - Parameter injectable: The names of all fields that any route may inject: no page is told that it may send them.
    public init(_ configuration: CrossSiteConfiguration, injectable: [String]) {
        let origins = configuration.corsOrigins.compactMap { WebOrigin($0) }
        self.origins = origins
        isEnabled = !origins.isEmpty
        let permits = origins.map {
            "Access-Control-Allow-Origin: \($0)\r\nAccess-Control-Allow-Credentials: true\r\n"
        }
        lines = permits.map { Array($0.utf8) + Self.varyLine }
        let maxAge = max(0, configuration.corsMaxAge.components.seconds)
        preflightLines = permits.map {
            Array("\($0)Access-Control-Max-Age: \(maxAge)\r\n".utf8) + Self.preflightVaryLine
        }
        // A client's own `Authorization` is let through as far as here, where it ends: pages may ask to send it.
        notAllowed = FieldNameSet(injectable + ["X-Client-Cert-Subject"])
    }

    /// What the origin of a request is.
    public func matchOrigin(of head: borrowing RequestHead, summary: RequestHeaderPolicy.RequestHeaderSummary)
        -> OriginMatch
    {
        guard isEnabled else { return .notEvaluated }
        let bytes = head.bytes.readableBytesUInt8Span
        guard case .value(let range) = summary.origin, let parts = OriginView(bytes, range),
            let index = origins.firstIndex(where: { $0.matches(parts, bytes) })
        else { return .notAllowed }
        return .allowed(index)
    }

    /// The lines that go with every answer; `nil` for none.
    public func responseFieldLines(_ standing: OriginMatch) -> [UInt8]? {
        switch standing {
        case .notEvaluated: nil
        case .notAllowed: Self.varyLine
        case .allowed(let index): lines[index]
        }
    }

    /// Whether a request with the method `OPTIONS` is a browser's question whether a page may ask: a preflight.
    /// - Returns: Where the method that the page would use stands; `nil` for any other request.
    public func preflight(_ head: borrowing RequestHead, summary: RequestHeaderPolicy.RequestHeaderSummary)
        -> ByteRange?
    {
        guard isEnabled, summary.origin != .absent else { return nil }
        let bytes = head.bytes.readableBytesUInt8Span
        for index in head.fields.indices
        where ASCII.equals(bytes, head.fields[index].nameRange, "access-control-request-method") {
            return head.fields[index].valueRange
        }
        return nil
    }

    /// The lines of the answer to a preflight. A stranger is told nothing, which is a refusal to its browser.
    /// - Parameter methods: Those of the path, as a list.
    public func preflightLines(
        _ standing: OriginMatch, _ head: borrowing RequestHead, methods: String
    ) -> [UInt8] {
        guard case .allowed(let index) = standing else { return Self.preflightVaryLine }
        var response = preflightLines[index]
        response += Array("Access-Control-Allow-Methods: \(methods)\r\n".utf8)
        appendNames(of: head, to: &response)
        return response
    }

    /// Allows the names of fields that the page asks for, as far as they are names.
    private func appendNames(of head: borrowing RequestHead, to response: inout [UInt8]) {
        let bytes = head.bytes.readableBytesUInt8Span
        var count = 0
        for index in head.fields.indices
        where ASCII.equals(bytes, head.fields[index].nameRange, "access-control-request-headers") {
            var names = ListTokenIterator(head.fields[index].valueRange)
            while let name = names.next(bytes), count < Self.maxRequestedHeaders {
                guard isToken(bytes, name), !notAllowed.contains(bytes, name) else { continue }
                response += Array((count == 0 ? "Access-Control-Allow-Headers: " : ", ").utf8)
                for offset in name.start..<name.end { response.append(bytes[offset]) }
                count += 1
            }
        }
        if count > 0 { response += [0x0d, 0x0a] }
    }

    /// RFC 9110 §5.6.2, but for `*`: that would be a wildcard.
    private func isToken(_ bytes: Span<UInt8>, _ range: ByteRange) -> Bool {
        for index in range.start..<range.end {
            guard Byte.isToken(bytes[index]), bytes[index] != UInt8(ascii: "*") else { return false }
        }
        return true
    }
}
