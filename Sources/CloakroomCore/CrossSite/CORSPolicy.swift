public import CloakroomWire
import NIOCore

/// Permits pages of other origins to read responses (the Fetch standard, §3.2, CORS).
///
/// Origins are listed individually, never `*`, because responses depend on the session cookie. That cookie is same-site
/// only, so CORS is for sibling origins, such as `https://app.example.com` and `https://api.example.com`.
///
/// Immutable; a class for the same reason as ``RequestHeaderPolicy``.
public final class CORSPolicy: Sendable {
    /// The result of matching a request's origin.
    public enum OriginMatch: Sendable, Equatable {
        /// Not evaluated: CORS is disabled, or the request was not checked.
        case notEvaluated
        /// There is no origin, or it is not on the list.
        case notAllowed
        /// The origin with this index is on the list.
        case allowed(Int)
    }

    /// Whether any other origin is allowed.
    public let isEnabled: Bool
    private let origins: [WebOrigin]
    /// For each origin, the lines that are added to every response to it.
    private let lines: [[UInt8]]
    /// For each origin, the lines of a preflight response that are the same for every path.
    private let preflightLines: [[UInt8]]
    private let notAllowed: FieldNameSet

    /// The maximum number of field names that one preflight may allow; no legitimate page needs more.
    static let maxRequestedHeaders = 64
    /// Added to all responses, so that no cache serves the response for one origin to another.
    private static let varyLine = Array("Vary: Origin\r\n".utf8)
    private static let preflightVaryLine =
        Array("Vary: Origin, Access-Control-Request-Method, Access-Control-Request-Headers\r\n".utf8)

    /// How long a browser may cache a preflight response, in seconds: short enough for a change of the configuration.
    private static let maxAge = 600

    /// Creates the policy. Invalid origins are skipped.
    /// - Parameter injectable: The names of all fields that any route may inject: pages are never allowed to send them.
    public init(_ configuration: CrossSiteConfiguration, injectable: [String]) {
        let origins = configuration.corsOrigins.compactMap { WebOrigin($0) }
        self.origins = origins
        isEnabled = !origins.isEmpty
        let permits = origins.map {
            "Access-Control-Allow-Origin: \($0)\r\nAccess-Control-Allow-Credentials: true\r\n"
        }
        lines = permits.map { Array($0.utf8) + Self.varyLine }
        preflightLines = permits.map {
            Array("\($0)Access-Control-Max-Age: \(Self.maxAge)\r\n".utf8) + Self.preflightVaryLine
        }
        // The gateway accepts a client's own `Authorization` but does not forward it, so pages may be allowed to send
        // it.
        notAllowed = FieldNameSet(injectable + ["X-Client-Cert-Subject"])
    }

    /// Matches the origin of a request.
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

    /// Returns the lines that are added to every response; `nil` for none.
    public func responseFieldLines(_ standing: OriginMatch) -> [UInt8]? {
        switch standing {
        case .notEvaluated: nil
        case .notAllowed: Self.varyLine
        case .allowed(let index): lines[index]
        }
    }

    /// Whether an `OPTIONS` request is a CORS preflight.
    /// - Returns: The position of the method that the page wants to use; `nil` for any other request.
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

    /// Returns the lines of a preflight response. For an origin that is not allowed there are none, which the browser
    /// treats as a rejection.
    /// - Parameter methods: The methods of the path, as a list.
    public func preflightLines(
        _ standing: OriginMatch, _ head: borrowing RequestHead, methods: String
    ) -> [UInt8] {
        guard case .allowed(let index) = standing else { return Self.preflightVaryLine }
        var response = preflightLines[index]
        response += Array("Access-Control-Allow-Methods: \(methods)\r\n".utf8)
        appendNames(of: head, to: &response)
        return response
    }

    /// Allows the requested field names, if they are valid names.
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

    /// A token of RFC 9110 §5.6.2, except `*`, which would be a wildcard.
    private func isToken(_ bytes: Span<UInt8>, _ range: ByteRange) -> Bool {
        for index in range.start..<range.end {
            guard Byte.isToken(bytes[index]), bytes[index] != UInt8(ascii: "*") else { return false }
        }
        return true
    }
}
