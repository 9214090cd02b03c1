import NIOCore
import NIOHTTP1
import ServiceLifecycle

/// A kind of request to a ``MockProvider``.
public enum ProviderEndpoint: String, Sendable, Codable, CodingKeyRepresentable, CaseIterable {
    case discovery, keys, authorization, pushed, userInfo, revocation, introspection, endSession
    /// A token request for a code, for a refresh token, and for a token exchange; `token` is one with another grant or an
    /// invalid form.
    case code, refresh, exchange, token
    /// Each endpoint without a fault of its own.
    case all
}

/// A deviation of an endpoint from its response.
public struct EndpointFault: Sendable, Codable, Equatable {
    /// The status that is sent instead; `nil` for the status of the regular response.
    public var status: Int?
    /// The body that is sent instead; with a status and without this, the body is empty.
    public var body: String?
    /// Fields that are added, or replace those of the same name.
    public var fields: [String: String] = [:]
    /// Seconds before the response begins.
    public var delay = 0.0
    /// Whether no response is sent, and the connection remains open.
    public var freezes = false
    /// Whether the connection is closed without a response.
    public var closes = false
    /// Whether the request takes effect although its response is replaced or lost, such as a spent code.
    public var takesEffect = false
    /// The number of requests that the fault applies to; `nil` for all.
    public var count: Int?

    /// Another status and body.
    public static func response(_ status: Int, _ body: String = "", count: Int? = nil) -> EndpointFault {
        EndpointFault(status: status, body: body, count: count)
    }

    /// An error of the token endpoint (RFC 6749 §5.2), with a description as real providers send it.
    public static func error(_ code: String, status: Int = 400, count: Int? = nil) -> EndpointFault {
        let description = RawJSON.string("description of the provider")
        return response(
            status, #"{"error":\#(RawJSON.string(code)),"error_description":\#(description)}"#, count: count)
    }

    /// A response that is late.
    public static func slow(seconds: Double, count: Int? = nil) -> EndpointFault {
        EndpointFault(delay: seconds, count: count)
    }

    /// No response.
    public static func frozen(count: Int? = nil) -> EndpointFault {
        EndpointFault(freezes: true, count: count)
    }

    /// A closed connection.
    public static func closed(takesEffect: Bool = false, count: Int? = nil) -> EndpointFault {
        EndpointFault(closes: true, takesEffect: takesEffect, count: count)
    }
}

extension EndpointFault {
    /// Reads a fault; omitted members have their defaults.
    public init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        status = try members.decodeIfPresent(Int.self, forKey: .status)
        body = try members.decodeIfPresent(String.self, forKey: .body)
        try members.read(.fields, into: &fields)
        try members.read(.delay, into: &delay)
        try members.read(.freezes, into: &freezes)
        try members.read(.closes, into: &closes)
        try members.read(.takesEffect, into: &takesEffect)
        count = try members.decodeIfPresent(Int.self, forKey: .count)
    }
}

extension ProviderState {
    /// The response of an endpoint with its scripted fault. The work takes no effect if a fault replaces it.
    func respond(_ endpoint: ProviderEndpoint, _ work: () throws -> MockResponse) async throws -> MockResponse {
        guard let fault = nextFault(endpoint) else { return try work() }
        if fault.delay > 0 { try await sleep(.seconds(min(fault.delay, 86_400))) }
        let replaces = fault.freezes || fault.closes || fault.status != nil
        var response = !replaces || fault.takesEffect ? try work() : MockResponse(providerJSON: "")
        if fault.freezes { try await sleep(.seconds(86_400)) }
        if fault.closes { throw ClosedConnection() }
        if let status = fault.status { response.status = HTTPResponseStatus(statusCode: status) }
        if let body = fault.body ?? (fault.status == nil ? nil : "") { response.body = ByteBuffer(string: body) }
        for (name, value) in fault.fields.sorted(by: { $0.key < $1.key }) {
            response.fields.replaceOrAdd(name: name, value: value)
        }
        return response
    }

    private func sleep(_ duration: Duration) async throws {
        try await cancelWhenGracefulShutdown { try await Task.sleep(for: duration) }
    }
}

extension MockResponse {
    init(providerJSON text: String, _ status: HTTPResponseStatus = .ok) {
        self.init(status, ["Content-Type": "application/json", "Cache-Control": "no-store"], text: text)
    }

    /// An error of a provider (RFC 6749 §5.2).
    init(providerError code: String, _ status: HTTPResponseStatus = .badRequest) {
        self.init(providerJSON: #"{"error":\#(RawJSON.string(code))}"#, status)
    }
}
