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
        case becameProtected = "became protected"
        case added
        case removed
        case shadowed
        case limitLoosened = "limit loosened"
        case limitRemoved = "limit removed"

        /// Whether requests that were rejected without a session are now forwarded without one.
        var isExposure: Bool { self == .becamePublic || self == .addedPublic }

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

    private let old: RouteTable
    private let new: RouteTable
    private let oldConfiguration: GatewayConfiguration
    private let newConfiguration: GatewayConfiguration
    /// The paths reserved in either configuration: those of the sign-in endpoints and of token calls.
    private let unchanged: [PathPattern]

    init(from old: GatewayConfiguration, to new: GatewayConfiguration) {
        self.old = RouteTable(old)
        self.new = RouteTable(new)
        oldConfiguration = old
        newConfiguration = new
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
        let before = route(in: old, method, sample)
        let after = route(in: new, method, sample)
        let made = { (kind: Kind, explanation: String) in
            Change(kind: kind, methods: [method], pattern: sample.pattern, explanation: explanation)
        }
        switch (before, after) {
        case (nil, nil): return nil
        case (nil, let after?):
            guard after.requiresAuthorization else { return made(.addedPublic, after.name) }
            return made(.added, "\(after.name), \(Self.word(after))")
        case (let before?, nil): return made(.removed, "\(before.name), was \(Self.word(before))")
        case (let before?, let after?):
            let names = before.name == after.name ? after.name : "\(after.name), was \(before.name)"
            if before.requiresAuthorization != after.requiresAuthorization {
                return made(after.requiresAuthorization ? .becameProtected : .becamePublic, names)
            }
            let isStillThere = new.routes.contains {
                $0.name == before.name && $0.pattern == before.pattern && $0.methods.contains(method)
            }
            guard before.name != after.name, isStillThere else {
                return limitChange(from: before, to: after).map { made($0.kind, $0.explanation) }
            }
            return made(.shadowed, "\(before.name), now served by \(after.name)")
        }
    }

    private func route(in table: RouteTable, _ method: String, _ sample: SamplePath) -> Route? {
        guard case .route(let index) = table.match(method: Array(method.utf8).span, path: Array(sample.path.utf8).span)
        else { return nil }
        return table.routes[index]
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
        route.requiresAuthorization ? "requires authorization" : "public"
    }
}
