import CloakroomCore
import CloakroomWire

/// `targets` of an upstream: a list of URLs, or of mappings, at least one.
///
/// - `url`: `http://host:port`, `https://host:port` or `unix:/path`. Required.
/// - `weight`: the share of requests relative to other targets, 0 to 1,000; default 100. 0 drains the target.
/// - `tier`: 0 to 9; default 0. Only the lowest tier with a usable target receives requests.
/// - `zone`: the target's zone; default: that of the gateway.
struct UpstreamTargetsSection {
    /// The maximum number of targets of an upstream.
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
            report(
                ConfigValueError(
                    "must have at most \(Self.maxCount) targets, not \(targets.count)",
                    "name a host with several addresses, or divide the upstream"))
        }
        for (index, target) in targets.enumerated() {
            let isRepeated = targets[..<index].contains {
                $0.scheme == target.scheme && $0.address.folded == target.address.folded
            }
            guard isRepeated else { continue }
            report(
                ConfigValueError("\(target) must not be listed twice", "keep one of them, with a weight"), target: index
            )
        }
        if targets.allSatisfy({ $0.weight == 0 }) {
            report(
                ConfigValueError(
                    "must have a target with a weight above 0: all are drained",
                    "raise the weight of one, or leave weight out"))
        }
        checkProtocol(protocolVersion, targets)
        if zone == nil, let index = targets.firstIndex(where: { $0.zone != nil }), let items {
            items[index].warn(
                ConfigValueError(
                    "has no effect without the zone of the gateway", "set \(name(of: "zone")), or leave it out"),
                at: "zone")
        }
    }

    private func checkProtocol(_ version: UpstreamProtocol, _ targets: [UpstreamTargetConfiguration]) {
        switch version {
        case .http1, .auto: return
        case .http2:
            guard let target = targets.first(where: { $0.scheme == .http }) else { return }
            reportProtocol(
                ConfigValueError(
                    "http2 conflicts with target \(target), which has no TLS",
                    "write h2c, or https:// targets"))
        case .h2c:
            guard let target = targets.first(where: { $0.scheme == .https }) else { return }
            reportProtocol(
                ConfigValueError(
                    "h2c conflicts with target \(target), which has TLS", "write http2, or http:// targets"))
        }
    }

    private func reportProtocol(_ valueError: ConfigValueError) {
        scope.report(valueError, at: "protocol", becauseOf: [scope.path + [Self.key]])
    }

    /// Reports an error at the whole list.
    private func report(_ valueError: ConfigValueError) {
        scope.report(valueError, at: Self.key)
    }

    private func report(_ valueError: ConfigValueError, target index: Int) {
        if let items {
            items[index].report(valueError, at: MixedLists.valueKey)
        } else {
            scope.report(valueError, item: index, of: Self.key)
        }
    }

    private func name(of key: String) -> String { (scope.path + [key]).joined(separator: ".") }
}

extension UpstreamTargetConfiguration.Address {
    /// The address with its host name in lower case (RFC 9110 §4.2.3).
    fileprivate var folded: Self {
        guard case .tcp(let address) = self else { return self }
        return .tcp(HostAndPort(host: address.host.lowercased(), port: address.port))
    }
}
