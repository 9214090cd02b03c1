import CloakroomCore

/// An item of `routes`.
///
/// Folder `Sections/`: one file per section: its keys, their formats, defaults and checks within the section.
struct RouteSection {
    let scope: ConfigScope
    let name: String?
    let methods: [String]?
    let pattern: PathPattern?
    let upstream: Int?
    let requiresAuthorization: Bool?
    /// The action of a route that forwards nothing, validly or not: `redirect` or `files`. It then has no upstream.
    let localAction: String?
    /// `nil` if its keys are invalid.
    private let action: RouteAction?
    /// The keys with a default. The others have placeholders.
    private(set) var options: Route

    init(from scope: ConfigScope, upstreams: UpstreamsSection) {
        self.scope = scope
        let redirect = scope.section("redirect")
        let files = scope.section("files")
        let isRedirect = scope.reading.isSectionSet(redirect.path) || scope.isInvalid("redirect")
        let isFiles = scope.reading.isSectionSet(files.path) || scope.isInvalid("files")
        localAction = isRedirect ? "redirect" : isFiles ? "files" : nil
        name = scope.required("name", as: .name)
        methods =
            localAction != nil
            ? scope.list("methods", as: .method, default: ["GET"]) : scope.requiredList("methods", as: .method)
        pattern = scope.required("path", as: .pattern)
        upstream = Self.upstream(scope, upstreams, isLocal: localAction != nil)
        // No default, so that no route is public by omission. A redirect reveals nothing but its target.
        requiresAuthorization =
            isRedirect
            ? scope.value("requiresAuthorization", as: .flag, default: false)
            : scope.required("requiresAuthorization", as: .flag)
        let rewrite = PathRewrite.read(from: scope, path: pattern)
        let template = RedirectTemplate(from: redirect, path: pattern)
        var served = FilesConfiguration()
        served.read(from: files)
        action =
            isRedirect
            ? template.map(RouteAction.redirect) : isFiles ? .files(served) : .forward(upstream: upstream ?? 0, rewrite)
        var options = Route(name: "", methods: [], pattern: PathPattern(segments: []), requiresAuthorization: true)
        options.read(from: scope)
        self.options = options
        readFields(upstreams)
        for key in localAction != nil ? Self.forwardingKeys : [] where scope.isSet(key) && !scope.isInvalid(key) {
            scope.report("conflicts with \(localAction ?? ""): nothing is forwarded", "remove one of the two", at: key)
        }
        checkStream()
        if isFiles { checkFiles(isRedirect) }
        if options.allowsWebSocket, let methods, !methods.contains("GET") {
            scope.report("a WebSocket begins with GET", "add GET to methods", at: "websocket")
        }
        for (index, method) in (methods ?? []).enumerated() {
            if let warning = MethodRules.warning(about: method) { scope.warn(warning, at: "methods", item: index) }
        }
        scope.reportRepetition(in: methods ?? [], at: "methods")
    }

    /// Whether sessions decide about its responses.
    var usesSession: Bool { requiresAuthorization != false || options.inject.contains(.bearer) }

    /// `requestFields` and `responseFields`.
    private mutating func readFields(_ upstreams: UpstreamsSection) {
        let (requests, responses) = (scope.section("requestFields"), scope.section("responseFields"))
        let names = pattern?.segments.compactMap { if case .parameter(let name) = $0 { name } else { nil } }
        options.requestFields = FieldChangesSection(
            scope: requests, isRequest: true, pathNames: names ?? [], upstreams: upstreams
        ).changes()
        options.responseFields = FieldChangesSection(
            scope: responses, isRequest: false, usesSession: usesSession, upstreams: upstreams
        ).changes()
        options.responsePreset = responses.optional("preset", as: .choice())
        if !usesSession, let field = options.requestFields.first(where: { $0.value.contains("{user.id}") }) {
            requests.section("set").warn(
                "{user.id} has no value: no session is looked up", "leave the field out", at: field.name)
        }
        if let localAction, requests.isPresent {
            requests.report("conflicts with \(localAction): nothing is forwarded", "remove one of the two")
        }
        if options.grpc, responses.isPresent {
            responses.report("conflicts with grpc: fields may be trailers there", "leave it out")
        }
    }

    /// Limits of streams that the route does not have.
    private func checkStream() {
        let stream = scope.sectionWithDefaults("stream")
        let conflict =
            localAction != nil
            ? ConfigValueError("conflicts with \(localAction ?? ""): nothing is forwarded", "remove one of the two")
            : options.grpc
                ? ConfigValueError("conflicts with grpc: a call is not limited as a stream", "write deadline")
                : ConfigValueError("requires websocket: true", "write it, or leave this out")
        let keys = ["message", "origins"] + (localAction != nil || options.grpc ? ["lifetime", "idle"] : [])
        for key in keys where stream.isSet(key) && !stream.isInvalid(key) && !options.allowsWebSocket {
            stream.report(conflict, at: key)
        }
        if options.allowsWebSocket, options.deadline > .zero, options.stream.lifetime == .zero {
            scope.inform("ends when a WebSocket begins", "stream.lifetime limits WebSockets", at: "deadline")
        }
    }

    /// The route, if it has enough valid keys to compare it with others.
    var route: Route? {
        guard let methods, let pattern, let action else { return nil }
        var route = options
        route.name = name ?? ""
        route.methods = methods
        route.pattern = pattern
        route.action = action
        route.requiresAuthorization = requiresAuthorization ?? true
        return route
    }

    /// The keys that apply to forwarded requests only.
    private static let forwardingKeys =
        PathRewrite.keys + [
            "cookiePaths", "upstream", "inject", "bodyLimit", "responseHeadTimeout", "bodyIdleTimeout", "websocket",
            "passFields", "inFlight", "deadline", "retry", "timed", "grpc",
        ]

    private static func upstream(_ scope: ConfigScope, _ upstreams: UpstreamsSection, isLocal: Bool) -> Int? {
        let name: String?
        if isLocal {
            name = scope.optional("upstream", as: .text)
        } else if upstreams.names.count == 1, let only = upstreams.names.first {
            name = scope.value("upstream", as: .text, default: only)
        } else if upstreams.names.isEmpty {
            // The missing upstream has been reported.
            name = scope.optional("upstream", as: .text)
        } else {
            name = scope.required("upstream", as: .text)
        }
        guard !isLocal, let name, !scope.isInvalid("upstream"), !upstreams.names.isEmpty else { return nil }
        do {
            return try upstreams.index(of: name)
        } catch {
            scope.report(error, at: "upstream")
            return nil
        }
    }
}

extension Route: ConfigSection {
    private enum InjectedField: String, CaseIterable {
        case apiToken, bearer
    }

    /// The keys of a route that have a default.
    static let keys: [Key<Self>] = [
        Key { $1.hosts = $0.hosts() },
        Key {
            let fields = $0.list("inject", as: ValueFormat<InjectedField>.choice()) ?? []
            $1.inject = fields.reduce(into: []) { $0.insert($1 == .bearer ? .bearer : .apiToken) }
        },
        Key { $1.messages = $0.messages() },
        Key(optional: "bodyLimit", \.bodyLimit, .size(0...LimitsConfiguration.maxBodySize)),
        Key(optional: "responseHeadTimeout", \.responseHeadTimeout, .wait),
        Key(optional: "bodyIdleTimeout", \.bodyIdleTimeout, .wait),
        Key("websocket", \.allowsWebSocket, .flag),
        Key("accessLogRatio", \.accessLogRatio, .fraction(0...1)),
        Key(list: "passFields", \.passFields, .spoofableField),
        Key("inFlight", \.inFlight, .integer(0...1_000_000)),
        Key(list: "rate", \.rate, .name),
        Key("deadline", \.deadline, .duration(.zero ... .seconds(86_400))),
        Key("retry", \.retry, .flag),
        Key("timed", \.timed, .flag),
        Key("grpc", \.grpc, .flag),
        Key(section: "stream", \.stream),
        Key("onMissingSession", \.onMissingSession, .choice()),
        Key { $1.credentials = RouteCredentials(from: $0) },
        Key { $1.require = SessionRequirement(from: $0.sectionWithDefaults("require")) },
    ]
}

extension RouteCredentials {
    /// `authorization` of a route: a word, or a list of them.
    fileprivate init(from scope: ConfigScope) {
        guard scope.isList("authorization") else {
            self = scope.value("authorization", as: .credentials, default: .session)
            return
        }
        let all = scope.nonEmptyList("authorization", as: .credentials) ?? [.session]
        self.init(all)
        if all.count > 1, all.contains(.pass) {
            scope.report("pass conflicts with others", "write it alone", at: "authorization")
        }
    }
}

extension ValueFormat where Value == RouteCredentials {
    fileprivate static let credentials = ValueFormat(
        RouteCredentials.words.map { "`\($0.word)`" }.joined(separator: ", ")
    ) { text throws(ConfigValueError) in
        let words = RouteCredentials.words
        guard let found = words.first(where: { $0.word == text.lowercased() }) else {
            throw ConfigValueError(
                "must be one of the allowed values, not \(text.quoted)", "write \(words.map(\.word).alternatives)")
        }
        return found.credentials
    }
}

extension StreamLimits: ConfigSection {
    /// `stream` of a route.
    static let keys: [Key<Self>] = [
        Key("lifetime", \.lifetime, .duration(.zero ... .seconds(30 * 86_400))),
        Key(optional: "idle", \.idle, .wait),
        Key("message", \.message, .size(0...1_073_741_824)),
        Key(list: "origins", \.origins, .httpsOrigin(otherwise: "its pages can be replaced on the network")),
    ]
}
