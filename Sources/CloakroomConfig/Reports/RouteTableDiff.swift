import CloakroomCore

extension CommandReport {
    /// `routes --diff OTHER`: what changes for clients when one configuration replaces another.
    ///
    /// Exits with 3 if there is an exposure, see ``RouteTableDiff/Kind/isExposure``, regardless of the route that serves
    /// the path now.
    /// - Parameters:
    ///   - sources: The new configuration.
    ///   - other: The old configuration.
    public static func routes(_ sources: ConfigSources, comparedWith other: ConfigSources) -> CommandReport {
        on(other) { old in
            on(sources) { new in
                let changes = RouteTableDiff(from: old.configuration, to: new.configuration).changes
                let document = RouteChangesDocument(sources, comparedWith: other, changes: changes)
                guard !changes.isEmpty else { return CommandReport(lines: ["no change"], document: document) }
                let rows = changes.map { change in
                    [change.kind.rawValue, change.methods.joined(separator: ","), change.place, change.explanation]
                }
                return CommandReport(
                    lines: Table.lines(rows), document: document,
                    exitCode: changes.contains(where: \.kind.isExposure) ? 3 : 0)
            }
        }
    }
}

/// The difference between two route tables as seen by requests, not by route names. Both tables are matched against a
/// sample path of every pattern and of every overlap of an old pattern with a new one.
struct RouteTableDiff {
    enum Kind: String, CaseIterable {
        case becamePublic = "became public"
        case addedPublic = "added public"
        case forwardedElsewhere = "forwarded elsewhere"
        case sendsTokens = "sends tokens"
        case sendsAPIToken = "sends API token"
        case servesMore = "serves more"
        case requiresLess = "requires less"
        case becameProtected = "became protected"
        case added
        case removed
        case shadowed
        case limitLoosened = "limit loosened"
        case limitRemoved = "limit removed"
        case fieldsRemoved = "fields removed"
        case redirected
        case originsWidened = "origins widened"
        case siteChanged = "site changed"

        /// Whether requests without a session reach something of an upstream, or a redirect, that they did not reach before,
        /// or with the upstream's API token; a route accepts sessions or credentials that it did not accept before; or an
        /// upstream gets tokens that it did not get before.
        var isExposure: Bool {
            [
                .becamePublic, .addedPublic, .forwardedElsewhere, .sendsTokens, .sendsAPIToken, .servesMore,
                .requiresLess,
            ]
            .contains(self)
        }

        /// The name in JSON, which is the name of the case.
        var identifier: String { "\(self)" }
    }

    struct Change: Equatable {
        let kind: Kind
        var methods: [String]
        let pattern: PathPattern
        let explanation: String
        /// The hosts, or `*` for those that no route lists; empty for all.
        var hosts: [String] = []

        var path: String { pattern.description }
        /// The hosts and the path.
        var place: String { hosts.isEmpty ? path : "\(hosts.joined(separator: ",")) \(path)" }
    }

    private let old: RouteTable
    private let new: RouteTable
    private let oldConfiguration: GatewayConfiguration
    private let newConfiguration: GatewayConfiguration
    /// The tokens that upstreams get from any route of the old configuration.
    private let knownTokens: Set<String>
    /// The paths reserved in either configuration: those of the sign-in endpoints and of token calls.
    private let unchanged: [PathPattern]

    init(from old: GatewayConfiguration, to new: GatewayConfiguration) {
        self.old = RouteTable(old)
        self.new = RouteTable(new)
        (oldConfiguration, newConfiguration) = (old, new)
        knownTokens = Set(old.routes.flatMap(old.tokens))
        unchanged = [old, new].flatMap { configuration in
            let calls = TokenCallPaths(configuration.upstreams).calls.map(\.path)
            return (calls + [configuration.accounts.prefix, configuration.accounts.prefix + "/*"]).compactMap {
                try? PathPattern($0)
            }
        }
    }

    /// The changes; newly public paths first. Those of each group of hosts are compared, and equal ones are one change.
    var changes: [Change] {
        let listeners = [oldConfiguration, newConfiguration].flatMap(\.listeners)
        let local = listeners.contains(where: \.isForDevelopment) ? ["localhost"] : []
        let served = listeners.flatMap { $0.hosts + ($0.forwardAuth?.hosts ?? []) }
        let names = Set(old.groups.hosts + new.groups.hosts + served + local)
        let hosts = Dictionary(grouping: names.sorted() + ["*"]) { host in
            [oldConfiguration.service(of: host, in: old), newConfiguration.service(of: host, in: new)]
        }
        var changes: [Change] = []
        for (services, hosts) in hosts.sorted(by: { $0.value[0] < $1.value[0] }) {
            for var change in self.changes(services[0], services[1]) {
                change.hosts = hosts
                let known = changes.firstIndex {
                    $0.kind == change.kind && $0.path == change.path && $0.explanation == change.explanation
                        && $0.methods == change.methods
                }
                if let known { changes[known].hosts += hosts } else { changes.append(change) }
            }
        }
        for index in changes.indices where changes[index].hosts.count > names.count { changes[index].hosts = [] }
        return Kind.allCases.flatMap { kind in
            changes.filter { $0.kind == kind }.sorted { ($0.path, $0.methods[0]) < ($1.path, $1.methods[0]) }
        }
    }

    /// How a host is served.
    fileprivate struct Service: Hashable {
        let group: Int
        /// Whether a listener serves it that requires no client certificates.
        let isOpen: Bool
    }

    /// The changes at hosts that are served in these ways; `nil` where they are not served.
    private func changes(_ before: Service?, _ after: Service?) -> [Change] {
        var changes: [Change] = []
        let patterns = Set((old.routes + new.routes).map(\.pattern))
        let samples = SamplePath.samples(old.routes.map(\.pattern), new.routes.map(\.pattern), kept: unchanged)
        for method in methods {
            for change in samples.flatMap({ differences(method, $0, before, after) }) {
                let alike = changes.indices.filter {
                    changes[$0].kind == change.kind && changes[$0].explanation == change.explanation
                }
                // A sample that is not itself a route pattern is omitted if its covering pattern has the same line.
                let isCovered = alike.contains {
                    changes[$0].methods.contains(method) && changes[$0].pattern.covers(change.pattern)
                }
                if isCovered, !patterns.contains(change.pattern) { continue }
                if let index = alike.first(where: { changes[$0].pattern == change.pattern }) {
                    changes[index].methods.append(method)
                } else {
                    changes.append(change)
                }
            }
        }
        return changes
    }

    /// `GET` includes `HEAD`, so `HEAD` is compared only if a route lists it.
    private var methods: [String] {
        Set((old.routes + new.routes).flatMap(\.methods)).sorted()
    }

    /// What changes for the requests of a sample: their route, the tokens that its upstream gets, and the pages that
    /// may open a WebSocket. Each is reported regardless of the others.
    private func differences(_ method: String, _ sample: SamplePath, _ from: Service?, _ to: Service?) -> [Change] {
        let before = match(in: old, from?.group, oldConfiguration, method, sample)
        let after = match(in: new, to?.group, newConfiguration, method, sample)
        let served = (to.map { new.groups.members[$0.group] } ?? []).map { new.routes[$0] }
        var changes = [routingChange(method, sample, before, after, among: served)].compactMap(\.self)
        guard let route = after?.route else { return changes }
        func add(_ kind: Kind, _ text: String) {
            changes.append(
                Change(kind: kind, methods: [method], pattern: sample.pattern, explanation: "\(route.name), \(text)"))
        }
        let lostCertificates = from?.isOpen == false && to?.isOpen == true
        if lostCertificates, route.isPublic, before != nil, !changes.contains(where: \.kind.isExposure) {
            add(.becamePublic, "no longer with client certificates only")
        }
        // Requests that had tokens before may get to another upstream with them.
        let sender = before.flatMap { $0.route.inject.contains(.bearer) ? $0.route : nil }
        let known = sender.map { Set(oldConfiguration.tokens(sentBy: $0)) } ?? knownTokens
        for tokens in newConfiguration.tokens(sentBy: route) where !known.contains(tokens) { add(.sendsTokens, tokens) }
        if route.credentials == .pass, before?.route.credentials != .pass {
            add(.requiresLess, "Authorization is not verified")
        }
        if let before = before?.route {
            let added = route.inject.subtracting(before.inject)
            if before.isPublic, route.isPublic, added.contains(.apiToken) {
                add(.sendsAPIToken, "that of \(route.target(in: newConfiguration))")
            }
            let (oldSite, newSite) = (old.groups.site(of: from?.group ?? 0), new.groups.site(of: to?.group ?? 0))
            let names = (old: oldConfiguration.siteName(oldSite), new: newConfiguration.siteName(newSite))
            if names.old != names.new, route.usesSession { add(.siteChanged, "\(names.new), was \(names.old)") }
            let sessions = Self.addedSessions(
                from: before, oldConfiguration.site(oldSite), to: route, newConfiguration.site(newSite))
            if let sessions { add(.requiresLess, sessions) }
        }
        let missing = Self.sentFields(before?.route, oldConfiguration).subtracting(
            Self.sentFields(route, newConfiguration))
        if !missing.isEmpty { add(.fieldsRemoved, missing.sorted().joined(separator: ", ")) }
        if route.isPublic, let before = before?.route.files, let more = Self.addedFiles(from: before, to: route.files) {
            add(.servesMore, more)
        }
        if method == "GET", let previous = before?.route, let origins = Self.addedOrigins(from: previous, to: route) {
            add(.originsWidened, "to \(origins)")
        }
        return changes
    }

    /// The names of the fields that requests and responses of a route get.
    private static func sentFields(_ route: Route?, _ configuration: GatewayConfiguration) -> Set<String> {
        guard let route else { return [] }
        let changes = route.requestFields + configuration.responseChanges(of: route)
        return Set(changes.filter { $0.kind != .remove }.map(\.name))
    }

    /// The files that a folder's route serves now and did not before; `nil` for none.
    private static func addedFiles(from before: FilesConfiguration, to after: FilesConfiguration?) -> String? {
        guard let names = after?.names else { return nil }
        var added = Set(names.dotfiles).subtracting(before.names.dotfiles).union(
            Set(before.names.exclude).subtracting(names.exclude)
        ).sorted()
        if names.links == .inside, before.names.links == .none { added.append("links") }
        return added.isEmpty ? nil : added.joined(separator: ", ")
    }

    /// The origins whose pages may open a WebSocket now and could not before; `nil` for none.
    private static func addedOrigins(from before: Route, to after: Route) -> String? {
        guard before.allowsWebSocket, after.allowsWebSocket, !before.stream.origins.isEmpty else { return nil }
        guard !after.stream.origins.isEmpty else { return "all" }
        let added = Set(after.stream.origins).subtracting(before.stream.origins)
        return added.isEmpty ? nil : added.sorted().joined(separator: ", ")
    }

    private func routingChange(
        _ method: String, _ sample: SamplePath, _ before: (route: Route, sent: String?)?,
        _ after: (route: Route, sent: String?)?, among served: [Route]
    ) -> Change? {
        let made = { (kind: Kind, explanation: String) in
            Change(kind: kind, methods: [method], pattern: sample.pattern, explanation: explanation)
        }
        var replaced = before?.route
        // A redirect reached nothing of an upstream.
        if replaced?.redirect != nil, let after, after.route.redirect == nil { replaced = nil }
        switch (replaced, after?.route) {
        case (nil, nil): return nil
        case (nil, let new?):
            guard new.isPublic else { return made(.added, "\(new.name), \(Self.word(new))") }
            return made(.addedPublic, new.name)
        case (let old?, nil): return made(.removed, "\(old.name), was \(Self.word(old))")
        case (let old?, let new?):
            let names = old.name == new.name ? new.name : "\(new.name), was \(old.name)"
            let (from, to) = (old.target(in: oldConfiguration), new.target(in: newConfiguration))
            if old.requiresAuthorization != new.requiresAuthorization, old.redirect != nil || new.redirect == nil {
                return made(new.requiresAuthorization ? .becameProtected : .becamePublic, names)
            }
            if new.redirect != nil { return from == to ? nil : made(.redirected, "\(names), \(to)") }
            if new.isPublic, before?.sent != after?.sent {
                return made(.forwardedElsewhere, "\(names), to \(to), was \(from)")
            }
            let isStillThere = served.contains {
                $0.name == old.name && $0.pattern == old.pattern && $0.methods.contains(method)
            }
            guard old.name != new.name, isStillThere else {
                return limitChange(from: old, to: new).map { made($0.kind, $0.explanation) }
            }
            return made(.shadowed, "\(old.name), now served by \(new.name)")
        }
    }

    /// Returns the route that serves a request, and the folder, or upstream and path that it is sent to.
    private func match(
        in table: RouteTable, _ group: Int?, _ configuration: GatewayConfiguration, _ method: String,
        _ sample: SamplePath
    ) -> (route: Route, sent: String?)? {
        guard let group else { return nil }
        let (match, sent) = table.match(method, Array(sample.path.utf8), group: group)
        guard case .route(let index) = match else { return nil }
        let text = String(decoding: sent, as: UTF8.self)
        let route = table.routes[index]
        if route.files != nil { return (route, route.target(in: configuration)) }
        guard let name = route.upstreamName(in: configuration) else { return (route, nil) }
        return (route, "\(name) \(text)")
    }

    /// A rate limit that permits more requests than before, or none that counts them.
    private func limitChange(from before: Route, to after: Route) -> (kind: Kind, explanation: String)? {
        let limits = newConfiguration.rateLimits(of: after).filter(\.isEnforced)
        for old in oldConfiguration.rateLimits(of: before) where old.isEnforced {
            guard let new = limits.first(where: { $0.name == old.name }) else {
                return (.limitRemoved, "\(after.name), was \(old.summary)")
            }
            if new.isLooser(than: old) { return (.limitLoosened, "\(after.name), \(new.summary), was \(old.summary)") }
        }
        return nil
    }

    private static func word(_ route: Route) -> String {
        if let redirect = route.redirect { return "redirects to \(redirect.target)" }
        return route.requiresAuthorization ? "requires authorization" : "public"
    }
}

extension GatewayConfiguration {
    /// How a host or a name with a wildcard is served; `nil` if no listener or no route serves it.
    fileprivate func service(of host: String, in table: RouteTable) -> RouteTableDiff.Service? {
        var configuration = self
        // In development, listeners on loopback serve few hosts. Changes for the others are reported too.
        configuration.session.cookie.isSecure = true
        let serving = configuration.listeners(serving: host, table.groups)
        guard listeners.isEmpty || !serving.isEmpty, let group = table.groups.group(of: host) else { return nil }
        return RouteTableDiff.Service(group: group, isOpen: !serving.allSatisfy(\.requiresClientCertificates))
    }

    /// The name of a site in reports.
    fileprivate func siteName(_ index: Int) -> String {
        sites.indices.contains(index) ? sites[index].title : SiteConfiguration().title
    }

    func listeners(serving host: String?, _ groups: RouteGroups) -> [ListenerConfiguration] {
        guard let rules = HostRules(self, groups) else { return listeners }
        return listeners.enumerated().filter { index, _ in
            if case .group = rules.resolve(host, on: index) { return true } else { return false }
        }.map(\.element)
    }
}

extension Route {
    /// Whether requests reach an upstream without a session.
    fileprivate var isPublic: Bool { !requiresAuthorization && redirect == nil }
}
