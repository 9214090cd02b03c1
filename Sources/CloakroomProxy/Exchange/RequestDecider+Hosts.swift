import CloakroomCore
import CloakroomHTTP2
import CloakroomTelemetry
import CloakroomWire

/// The host of a request, and decisions that depend on it only.
extension RequestDecider {
    /// Determines the authority of the request. HTTP/1.1 requires exactly one `Host`, even with an absolute-form target
    /// (RFC 9112 §3.2).
    static func resolveAuthority(_ request: inout InboundRequest, _ span: Span<UInt8>) -> Bool {
        var host: ByteRange?
        for field in request.head.fields where field.name == .host {
            guard host == nil else { return false }
            let range = field.valueRange
            guard Authority.isValid(span.extracting(range.start..<range.end)) else { return false }
            host = range
        }
        guard host != nil || request.version != .http1_1 else { return false }
        if let authority = request.target.authority {
            host = ByteRange(start: request.head.target.start + authority.start, count: authority.count)
        }
        request.hostRange = host
        return true
    }

    /// Finds the routes of the request's host, before anything else is decided: the origin of a request is compared with
    /// that host.
    /// - Returns: The response, if the host is not served here, or redirected. Clients that use a connection for several hosts repeat
    ///   the request on another one (RFC 9110 §15.5.20).
    @inline(never)
    func findHost(of request: inout InboundRequest, _ span: Span<UInt8>, _ hosts: HostRules) -> RequestDecision? {
        let range = request.hostRange ?? ByteRange(start: 0, count: 0)
        switch request.hostCache.resolve(span.extracting(range.start..<range.end), by: hosts, on: listener) {
        case .group(let group):
            request.routeGroup = group
            return nil
        case .redirect(let port):
            return request.target.isAsterisk ? nil : redirect(request, span, to: port)
        case .misdirected(let reason):
            config.telemetry.metrics.misdirected[reason]?.increment()
            return .problem(ProblemDocument(Problem(.misdirected)), .misdirected, allow: nil)
        }
    }

    /// Decides about a request of a listener that only redirects to https, to a host of the configuration. With 308 for
    /// other methods, programs would send their bodies in clear text each time.
    private func redirect(_ request: borrowing InboundRequest, _ span: Span<UInt8>, to port: Int) -> RequestDecision {
        guard request.method == .get || request.method == .head else { return Self.problem(.httpsRequired) }
        guard let range = request.hostRange, let host = HostNames.folded(span.extracting(range.start..<range.end))
        else { return .malformed }
        return .redirect(origin: "https://\(host)" + (port == 443 ? "" : ":\(port)"))
    }
}

/// The authority of the last request of a connection, and what it leads to. Consecutive requests of a connection usually
/// have the same one; folding and hashing it costs as much as matching a route.
struct HostCache {
    /// The rules that the result is from. Retained, so that those of another configuration are never mistaken for them.
    private var rules: HostRules?
    /// At most 255 bytes; see ``Authority``.
    private var authority: [UInt8] = []
    private var resolution = HostRules.Resolution.group(0)

    /// - Parameters:
    ///   - authority: Valid, or empty without one.
    ///   - listener: The same for all requests of the connection.
    mutating func resolve(_ authority: Span<UInt8>, by rules: HostRules, on listener: Int) -> HostRules.Resolution {
        let count = authority.count
        if rules === self.rules, count == self.authority.count,
            self.authority.span.equals(authority, at: 0, otherStart: 0, count: count)
        {
            return resolution
        }
        resolution = rules.resolve(HostNames.folded(authority), on: listener)
        self.authority = (0..<count).map { authority[$0] }
        self.rules = rules
        return resolution
    }
}
