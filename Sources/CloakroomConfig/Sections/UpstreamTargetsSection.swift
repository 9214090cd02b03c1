import CloakroomCore
import CloakroomWire

/// `targets` of an upstream: a list of URLs, or of mappings, at least one.
///
/// - `url`: `http://host:port`, `https://host:port` or `unix:/path`. Required.
/// - `weight`: the share of requests relative to other targets, 0 to 1,000; default 100. 0 drains the target.
/// - `tier`: 0 to 9; default 0. Only the lowest tier with a usable target receives requests.
/// - `zone`: the target's zone; default: that of the gateway.
struct UpstreamTargetsSection {
    static let maxCount = 64

    private static let key = "targets"

    private let scope: ConfigScope
    /// The sections of the items; `nil` if the list consists of URLs only.
    private let items: [ConfigScope]?
    /// The targets; `nil` if the list is missing or has an error.
    let targets: [UpstreamTargetConfiguration]?

    init(from scope: ConfigScope) {
        self.scope = scope
        let reading = scope.reading
        let path = scope.path + [Self.key]
        let isOverridden = reading.isSet(path, in: .flags) || reading.isSet(path, in: .environment)
        if !isOverridden, MixedLists.hasSections(path, in: reading.tree, reading.sources) {
            reading.document(path) { document in
                document.expectation = ValueFormat<UpstreamTargetConfiguration>.target.expectation + ", or a mapping"
                document.isList = true
                document.isRequired = true
            }
            let items = scope.items(Self.key)
            let targets = items.compactMap(Self.target)
            self.items = items
            self.targets = targets.count == items.count && !items.isEmpty ? targets : nil
        } else {
            items = nil
            targets = scope.requiredList(Self.key, as: .target)
        }
    }

    private static func target(from item: ConfigScope) -> UpstreamTargetConfiguration? {
        let url = item.required(MixedLists.valueKey, as: .target)
        let weight = item.value("weight", as: .integer(0...1_000), default: 100)
        let tier = item.value("tier", as: .integer(0...9), default: 0)
        let zone = item.optional("zone", as: .name)
        guard var target = url else { return nil }
        target.weight = weight
        target.tier = tier
        target.zone = zone
        return target
    }

    /// Validates the targets against each other and against the upstream's zone and protocol.
    func check(zone: String?, protocolVersion: UpstreamProtocol) {
        guard let targets else { return }
        if targets.count > Self.maxCount {
            scope.report(
                "must have at most \(Self.maxCount) targets, not \(targets.count)",
                "name a host with several addresses, or divide the upstream", at: Self.key)
        }
        for (index, target) in targets.enumerated() {
            let isRepeated = targets[..<index].contains {
                $0.scheme == target.scheme && $0.address.folded == target.address.folded
            }
            guard isRepeated else { continue }
            let (message, suggestion) = ("\(target) must not be listed twice", "keep one of them, with a weight")
            if let items {
                items[index].report(message, suggestion, at: MixedLists.valueKey)
            } else {
                scope.report(message, suggestion, at: Self.key, item: index)
            }
        }
        if targets.allSatisfy({ $0.weight == 0 }) {
            scope.report(
                "must have a target with a weight above 0: all are drained",
                "raise the weight of one, or leave weight out", at: Self.key)
        }
        checkProtocol(protocolVersion, targets)
        if zone == nil, let index = targets.firstIndex(where: { $0.zone != nil }), let items {
            items[index].warn(
                "has no effect without the zone of the gateway",
                "set \((scope.path + ["zone"]).joined(separator: ".")), or leave it out", at: "zone")
        }
    }

    private func checkProtocol(_ version: UpstreamProtocol, _ targets: [UpstreamTargetConfiguration]) {
        let wrong: URIScheme
        switch version {
        case .http1, .auto: return
        case .http2: wrong = .http
        case .h2c: wrong = .https
        }
        guard let target = targets.first(where: { $0.scheme == wrong }) else { return }
        scope.report(
            "\(version.rawValue) conflicts with target \(target), which has \(wrong == .http ? "no TLS" : "TLS")",
            wrong == .http ? "write h2c, or https:// targets" : "write http2, or http:// targets", at: "protocol",
            becauseOf: [scope.path + [Self.key]])
    }
}

extension UpstreamTargetConfiguration.Address {
    /// The address with its host name in lower case (RFC 9110 §4.2.3).
    fileprivate var folded: Self {
        guard case .tcp(let address) = self else { return self }
        return .tcp(HostAndPort(host: address.host.lowercased(), port: address.port))
    }
}
