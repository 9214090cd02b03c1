import CloakroomCore
import FoundationEssentials

extension Encodable {
    /// The content of a report as JSON: indented, with sorted members, and a line break at the end. Members are added,
    /// never renamed or removed. A member without a value is absent.
    ///
    /// All documents on a configuration have `configuration`, the name of the file or `standard input`, and `valid`:
    /// whether it has no error. If it has one, every command prints a ``CheckDocument``.
    package var reportDocument: String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        // Encoding text, finite numbers and Boolean values does not fail.
        guard let data = try? encoder.encode(self) else { return "" }
        return String(decoding: data, as: UTF8.self) + "\n"
    }
}

/// `check-config`, and the errors of the other commands.
struct CheckDocument: Encodable {
    let configuration: String
    let valid: Bool
    /// Whether files that the configuration references were not read.
    let offline: Bool
    let problems: [ConfigDiagnostic]
    /// The number of problems that are warnings.
    let warnings: Int
    /// The number of routes, if the values are valid.
    var routes: Int?
    /// The number of upstreams, if the values are valid.
    var upstreams: Int?

    init(_ sources: ConfigSources, problems: [ConfigDiagnostic]) {
        configuration = sources.name
        valid = problems.allSatisfy { $0.severity != .error }
        offline = sources.isOffline
        warnings = problems.count { $0.severity == .warning }
        self.problems = problems
    }
}

/// `print-config`.
struct ValuesDocument: Encodable {
    let configuration: String
    let valid = true
    let values: [EffectiveValue]
}

/// `routes`.
struct RoutesDocument: Encodable {
    struct Entry: Encodable {
        let name: String
        let methods: [String]
        /// The hosts that the route serves; absent for every host.
        let hosts: [String]?
        /// The sites at whose hosts it is served, `(default)` for the default one; absent if there is only one.
        let sites: [String]?
        let path: String
        /// The upstream that the route forwards to; absent for a redirect.
        let upstream: String?
        /// The upstream, with the pattern of the paths that it receives if that is another one, or `→` and a URL.
        let target: String
        let requiresAuthorization: Bool
        /// `apiToken`, `bearer`.
        let injects: [String]
        /// The names of rate limits; absent without any.
        let rate: [String]?
        /// `bearer`, `basic`, `either`, `pass`, or several with commas; absent for sessions.
        let credentials: String?
    }

    /// An endpoint of the gateway itself.
    struct Endpoint: Encodable {
        let methods: [String]
        let path: String
    }

    let configuration: String
    let valid = true
    let routes: [Entry]
    let local: [Endpoint]

    init(_ sources: ConfigSources, _ gateway: GatewayConfiguration) {
        configuration = sources.name
        let groups = RouteGroups(gateway)
        routes = gateway.routes.enumerated().map { index, route in
            let serving = groups.members.indices.filter { groups.members[$0].contains(index) }
            let sites = Set(serving.map { groups.site(of: $0) })
            return Entry(
                name: route.name, methods: route.methods, hosts: route.hosts.isEmpty ? nil : route.hosts,
                sites: gateway.sites.isEmpty ? nil : sites.sorted().map { gateway.sites[$0].title },
                path: route.pattern.description,
                upstream: route.upstreamName(in: gateway), target: route.target(in: gateway),
                requiresAuthorization: route.requiresAuthorization, injects: Self.names(of: route.inject),
                rate: route.rate.isEmpty ? nil : route.rate,
                credentials: route.credentials == .session ? nil : route.credentials.description)
        }
        let prefix = gateway.accounts.prefix
        local =
            gateway.accounts.upstream == nil
            ? []
            : [
                Endpoint(methods: ["POST", "GET", "DELETE"], path: prefix),
                Endpoint(methods: ["GET", "DELETE"], path: prefix + "/sessions"),
                Endpoint(methods: ["DELETE"], path: prefix + "/sessions/{id}"),
            ]
    }

    private static func names(of inject: Injection) -> [String] {
        (inject.contains(.apiToken) ? ["apiToken"] : []) + (inject.contains(.bearer) ? ["bearer"] : [])
    }
}

extension Route {
    /// The upstream that the route forwards to; `nil` for other actions.
    func upstreamName(in gateway: GatewayConfiguration) -> String? {
        guard let upstream else { return nil }
        return gateway.upstreams[upstream].name
    }

    /// What the route leads to.
    func target(in gateway: GatewayConfiguration) -> String {
        switch action {
        case .forward(let upstream, let rewrite):
            gateway.upstreams[upstream].name + (rewrite.map { " \($0.pattern)" } ?? "")
        case .redirect(let redirect): "→ \(redirect.target)"
        case .files(let files): "files \(files.root)"
        }
    }
}

extension GatewayConfiguration {
    /// The routes in their order, each with what it serves, and where that leads: `GET, POST /videos/{id} → api`.
    package var routeSummaries: [(name: String, serves: String)] {
        routes.map { route in
            let hosts = route.hosts.joined(separator: ", ")
            let target = route.target(in: self)
            let arrow = route.redirect == nil ? "→ " : ""
            return (route.name, "\(route.methods.joined(separator: ", ")) \(hosts)\(route.pattern) \(arrow)\(target)")
        }
    }
}

/// `routes --diff`.
struct RouteChangesDocument: Encodable {
    struct Change: Encodable {
        /// See ``RouteTableDiff/Kind/identifier``.
        let kind: String
        let methods: [String]
        /// The hosts, or `*` for those that no route lists; absent for every host.
        let hosts: [String]?
        let path: String
        let explanation: String
        /// See ``RouteTableDiff/Kind/isExposure``.
        let isExposure: Bool
    }

    let configuration: String
    let comparedWith: String
    let valid = true
    let changes: [Change]

    init(_ sources: ConfigSources, comparedWith other: ConfigSources, changes: [RouteTableDiff.Change]) {
        configuration = sources.name
        comparedWith = other.name
        self.changes = changes.map { change in
            Change(
                kind: change.kind.identifier, methods: change.methods, hosts: change.hosts.isEmpty ? nil : change.hosts,
                path: change.path,
                explanation: change.explanation, isExposure: change.kind.isExposure)
        }
    }
}

/// `explain`.
struct ExplanationDocument: Encodable {
    struct Detail: Encodable {
        let name: String
        let text: String
    }

    let configuration: String
    let valid = true
    let method: String
    let target: String
    /// The given host; absent without one.
    let host: String?
    /// `forwarded`, `redirected`, `file`, `local` or `rejected`.
    let outcome: String
    /// The status of a rejected request: 400, 404, 405, 414 or 421.
    var status: Int?
    /// The name of the route that forwards or redirects the request.
    var route: String?
    /// The name of the upstream that the request is forwarded to.
    var upstream: String?
    /// Whether the route requires a session.
    var requiresAuthorization: Bool?
    /// The rows of the text, in its order. Names repeat; the texts are for readers and may change.
    let details: [Detail]

    init(_ sources: ConfigSources, _ explanation: RequestExplanation) {
        configuration = sources.name
        method = explanation.method
        target = explanation.target
        host = explanation.host
        let (outcome, rows) = explanation.result
        switch outcome {
        case .permitted(let route):
            self.outcome = route.redirect != nil ? "redirected" : route.files != nil ? "file" : "forwarded"
            self.route = route.name
            upstream = route.upstreamName(in: explanation.configuration)
            requiresAuthorization = route.requiresAuthorization
        case .local: self.outcome = "local"
        case .rejected(let status):
            self.outcome = "rejected"
            self.status = status
        }
        details = rows.map { Detail(name: $0.0, text: $0.1) }
    }
}
