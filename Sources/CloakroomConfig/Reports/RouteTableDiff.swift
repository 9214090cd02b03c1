import CloakroomCore

extension CommandReport {
    /// `routes --diff OTHER`: what changes for clients when one configuration replaces another.
    ///
    /// Exits with 3 if a path became public: one that required authorization or was not served before, regardless of
    /// the route that serves it now.
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
                    [change.kind.rawValue, change.methods.joined(separator: ","), change.path, change.explanation]
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
        case becameProtected = "became protected"
        case added
        case removed
        case shadowed
        case redirected

        /// Whether requests without a session reach something of an upstream that they did not reach before.
        var isExposure: Bool { self == .becamePublic || self == .addedPublic || self == .forwardedElsewhere }

        /// The name in JSON, which is the name of the case.
        var identifier: String { "\(self)" }
    }

    struct Change: Equatable {
        let kind: Kind
        var methods: [String]
        let pattern: PathPattern
        let explanation: String

        var path: String { pattern.description }
    }

    /// What a table does with a request.
    private struct Match {
        let route: Route
        /// Whether the request reaches an upstream without a session.
        let isPublic: Bool
        /// Upstream and path, or the target of a redirect.
        let target: String
        /// The same for all requests of the route.
        let shown: String
    }

    private let old: RouteTable
    private let new: RouteTable
    private let oldUpstreams: [String]
    private let newUpstreams: [String]
    /// The paths reserved in either configuration: those of the sign-in endpoints and of token calls.
    private let unchanged: [PathPattern]

    init(from old: GatewayConfiguration, to new: GatewayConfiguration) {
        self.old = RouteTable(old)
        self.new = RouteTable(new)
        oldUpstreams = old.upstreams.map(\.name)
        newUpstreams = new.upstreams.map(\.name)
        unchanged = [old, new].flatMap { configuration in
            let calls = TokenCallPaths(configuration.upstreams).calls.map(\.path)
            return (calls + [configuration.accounts.prefix, configuration.accounts.prefix + "/*"]).compactMap {
                try? PathPattern($0)
            }
        }
    }

    /// The changes; newly public paths first.
    var changes: [Change] {
        var changes: [Change] = []
        let patterns = Set((old.routes + new.routes).map(\.pattern))
        let samples = SamplePath.samples(old.routes.map(\.pattern), new.routes.map(\.pattern), kept: unchanged)
        for method in methods {
            for sample in samples {
                guard let change = change(method, sample) else { continue }
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
        return Kind.allCases.flatMap { kind in
            changes.filter { $0.kind == kind }.sorted { ($0.path, $0.methods[0]) < ($1.path, $1.methods[0]) }
        }
    }

    /// `GET` includes `HEAD`, so `HEAD` is compared only if a route lists it.
    private var methods: [String] {
        Set((old.routes + new.routes).flatMap(\.methods)).sorted()
    }

    private func change(_ method: String, _ sample: SamplePath) -> Change? {
        let before = match(in: old, oldUpstreams, method, sample)
        let after = match(in: new, newUpstreams, method, sample)
        let made = { (kind: Kind, explanation: String) in
            Change(kind: kind, methods: [method], pattern: sample.pattern, explanation: explanation)
        }
        switch (before, after) {
        case (nil, nil): return nil
        case (nil, let after?):
            guard after.isPublic else { return made(.added, "\(after.route.name), \(Self.word(after.route))") }
            return made(.addedPublic, after.route.name)
        case (let before?, nil): return made(.removed, "\(before.route.name), was \(Self.word(before.route))")
        case (let before?, let after?):
            let (old, new) = (before.route, after.route)
            let names = old.name == new.name ? new.name : "\(new.name), was \(old.name)"
            if new.redirect != nil {
                return before.target == after.target ? nil : made(.redirected, "\(names), to \(after.shown)")
            }
            if old.requiresAuthorization != new.requiresAuthorization || after.isPublic && old.redirect != nil {
                return made(after.isPublic ? .becamePublic : .becameProtected, names)
            }
            if after.isPublic, before.target != after.target {
                return made(.forwardedElsewhere, "\(names), to \(after.shown), was \(before.shown)")
            }
            let isStillThere = self.new.routes.contains {
                $0.name == old.name && $0.pattern == old.pattern && $0.methods.contains(method)
            }
            guard old.name != new.name, isStillThere else { return nil }
            return made(.shadowed, "\(old.name), now served by \(new.name)")
        }
    }

    private func match(in table: RouteTable, _ upstreams: [String], _ method: String, _ sample: SamplePath) -> Match? {
        let path = Array(sample.path.utf8)
        guard case .route(let index) = table.match(method: Array(method.utf8).span, path: path.span) else { return nil }
        let route = table.routes[index]
        guard let upstream = route.upstream.map({ upstreams[$0] }), let pattern = route.sentPattern else {
            let target = route.redirect?.target ?? ""
            return Match(route: route, isPublic: false, target: target, shown: target)
        }
        var sent: [UInt8] = []
        // A path that is never forwarded is not served.
        guard table.rewrite(path.span, for: index, into: &sent) else { return nil }
        let target = String(decoding: route.rewrite == nil ? path : sent, as: UTF8.self)
        return Match(
            route: route, isPublic: !route.requiresAuthorization, target: "\(upstream) \(target)",
            shown: "\(upstream) \(pattern)")
    }

    private static func word(_ route: Route) -> String {
        if let redirect = route.redirect { return "redirects to \(redirect.target)" }
        return route.requiresAuthorization ? "requires authorization" : "public"
    }
}
