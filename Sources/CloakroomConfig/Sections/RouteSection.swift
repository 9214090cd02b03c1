import CloakroomCore

/// An item of `routes`.
///
/// - `name`: letters, digits and `._-`; unique. Required.
/// - `methods`: upper case; `GET` includes `HEAD`. Required.
/// - `path`: a pattern such as `/videos/{id}` or `/files/*`. Required.
/// - `upstream`: the name of an upstream. Required if there are several.
/// - `requiresAuthorization`: whether the route requires a session, `true` or `false`. Required, so that no route is
///   public by omission.
/// - `inject`: a list of `apiToken` and `bearer`; default none.
/// - `messages`: user-visible messages by code; default none.
/// - `bodyLimit`: 0 to 1TiB; default `limits.body`.
/// - `responseHeadTimeout`: 1ms to 1d; default `timeouts.responseHead`.
/// - `bodyIdleTimeout`: 1ms to 1d; default `timeouts.bodyIdle`.
/// - `websocket`: whether the connection can be upgraded to a WebSocket; requires `GET`. Default `false`.
/// - `accessLogRatio`: the fraction of requests that are logged in the access log, 0 to 1; default 1.
/// - `passFields`: request fields that are forwarded although they are stripped by default because they override the
///   method, path, address or user, such as `X-HTTP-Method-Override`; default none.
/// - `inFlight`: the maximum number of requests in flight, 0 (unlimited) to 1,000,000; default 0.
/// - `deadline`: from the head of a request to the last byte of its response, 0s (unlimited) to 1d; default 0s.
/// - `retry`: whether `retry` of the upstream applies; default `true`.
/// - `timed`: whether response times count in the estimates of the targets; default `true`.
/// - `grpc`: whether requests are gRPC calls; requires an upstream with HTTP/2. Default `false`.
/// - `onMissingSession`: `reject` (default) or `login`.
/// - `require.claims`: by name, the acceptable values; `require.acr`: authentication contexts; `require.maxAge`: 1s to
///   1d. Default none.
///
/// Folder `Sections/`: one file per section: its keys, their formats, defaults and checks within the section.
struct RouteSection {
    private enum Kind: String, CaseIterable {
        case apiToken, bearer
    }

    let scope: ConfigScope
    let name: String?
    let methods: [String]?
    let pattern: PathPattern?
    let upstream: Int?
    let requiresAuthorization: Bool?
    let inject: Injection
    private let messages: [ProblemCode: String]
    private let bodyLimit: Int?
    private let responseHeadTimeout: Duration?
    private let bodyIdleTimeout: Duration?
    let allowsWebSocket: Bool
    private let accessLogRatio: Double
    let passFields: [String]
    private let inFlight: Int
    private let deadline: Duration
    private let retry: Bool
    private let timed: Bool
    let grpc: Bool
    let onMissingSession: MissingSessionAction
    let require: SessionRequirement

    init(from scope: ConfigScope, upstreams: UpstreamsSection) {
        self.scope = scope
        name = scope.required("name", as: .name)
        methods = scope.requiredList("methods", as: .method)
        pattern = scope.required("path", as: .pattern)
        upstream = Self.upstream(scope, upstreams)
        requiresAuthorization = scope.required("requiresAuthorization", as: .flag)
        let kinds = scope.list("inject", as: ValueFormat<Kind>.choice()) ?? []
        inject = kinds.reduce(into: []) { $0.insert($1 == .bearer ? .bearer : .apiToken) }
        messages = scope.messages()
        bodyLimit = scope.optional("bodyLimit", as: .size(0...LimitsConfiguration.maxBodySize))
        responseHeadTimeout = scope.optional("responseHeadTimeout", as: .wait)
        bodyIdleTimeout = scope.optional("bodyIdleTimeout", as: .wait)
        allowsWebSocket = scope.value("websocket", as: .flag, default: false)
        accessLogRatio = scope.value("accessLogRatio", as: .fraction(0...1), default: 1)
        passFields = scope.list("passFields", as: .claimField) ?? []
        inFlight = scope.value("inFlight", as: .integer(0...1_000_000), default: 0)
        deadline = scope.value("deadline", as: .duration(.zero ... .seconds(86_400)), default: .zero)
        retry = scope.value("retry", as: .flag, default: true)
        timed = scope.value("timed", as: .flag, default: true)
        grpc = scope.value("grpc", as: .flag, default: false)
        onMissingSession = scope.value("onMissingSession", as: .choice(), default: .reject)
        require = SessionRequirement(from: scope.sectionWithDefaults("require"))
        if allowsWebSocket, let methods, !methods.contains("GET") {
            scope.report(ConfigValueError("a WebSocket begins with GET", "add GET to methods"), at: "websocket")
        }
        for (index, method) in (methods ?? []).enumerated() {
            if let warning = MethodRules.warning(about: method) { scope.warn(warning, item: index, of: "methods") }
        }
        if let methods, Set(methods).count < methods.count {
            scope.report(ConfigValueError("must be a list without duplicates", "keep one of them"), at: "methods")
        }
    }

    /// The route, if it has enough valid keys to compare it with others.
    var route: Route? {
        guard let methods, let pattern else { return nil }
        return Route(
            name: name ?? "", methods: methods, pattern: pattern, upstream: upstream ?? 0,
            requiresAuthorization: requiresAuthorization ?? true, inject: inject, messages: messages,
            bodyLimit: bodyLimit, responseHeadTimeout: responseHeadTimeout, bodyIdleTimeout: bodyIdleTimeout,
            allowsWebSocket: allowsWebSocket, accessLogRatio: accessLogRatio, passFields: passFields,
            inFlight: inFlight,
            deadline: deadline, retry: retry, timed: timed, grpc: grpc, onMissingSession: onMissingSession,
            require: require)
    }

    private static func upstream(_ scope: ConfigScope, _ upstreams: UpstreamsSection) -> Int? {
        let name: String?
        if upstreams.names.count == 1, let only = upstreams.names.first {
            name = scope.value("upstream", as: .text, default: only)
        } else if upstreams.names.isEmpty {
            // The missing upstream has been reported.
            name = scope.optional("upstream", as: .text)
        } else {
            name = scope.required("upstream", as: .text)
        }
        guard let name, !scope.isInvalid("upstream"), !upstreams.names.isEmpty else { return nil }
        do {
            return try upstreams.index(of: name)
        } catch {
            scope.report(error, at: "upstream")
            return nil
        }
    }
}

extension SessionRequirement {
    /// The maximum number of values of a claim.
    private static let maxValues = 256

    /// `require` of a route.
    fileprivate init(from scope: ConfigScope) {
        let claims = scope.entries("claims") { section, name in
            let values = section.nonEmptyList(name, as: .text)
            if let values, values.count > Self.maxValues {
                section.report(
                    ConfigValueError(
                        "must be at most \(Self.maxValues) values, not \(values.count)",
                        "let the provider state one value for all of them"), at: name)
            }
            return values
        }
        self.init(
            claims: claims.map { Claim($0.name, in: $0.value) },
            acr: scope.nonEmptyList("acr", as: .authenticationContext) ?? [],
            maxAge: scope.optional("maxAge", as: .duration(.seconds(1) ... .seconds(86_400))))
    }
}
