import CloakroomCore

extension TracingConfiguration: ConfigSection {
    /// `tracing`. The weakest source of each key is its variables of the OpenTelemetry specification:
    /// ``OpenTelemetryVariables``.
    static let keys: [Key<Self>] = [
        Key("exporter", \.exporter, .restart) { scope, tracing in
            let isCollectorSet = scope.sectionWithDefaults("otlp").isSetExplicitly("endpoint")
            tracing.exporter = scope.value(
                "exporter", as: .choice(), default: isCollectorSet ? .otlp : tracing.exporter)
        },
        Key("sampler", \.sampler.name, .choice(), .restart),
        Key("ratio", \.sampler.ratio, .restart) { scope, tracing in
            // If the sampler is set by its variable without an argument, the specification's default ratio 1 applies.
            let sampler = scope.reading.origin(scope.path + ["sampler"])
            let isRequested = sampler == .environment(OpenTelemetryVariables.sampler)
            tracing.sampler.ratio = scope.value(
                "ratio", as: .fraction(0...1), default: isRequested ? 1 : tracing.sampler.ratio)
        },
        Key("serviceName", \.serviceName, .serviceName, .restart),
        Key(list: "resourceAttributes", \.resourceAttributes, .resourceAttribute, .restart),
        Key(section: "otlp", \.otlp),
    ]

    func check(_ scope: ConfigScope) {
        scope.reportDuplicates(in: resourceAttributes.map(\.name), at: "resourceAttributes")
        let isCollectorSet = scope.sectionWithDefaults("otlp").isSetExplicitly("endpoint")
        if exporter == .otlp, !isCollectorSet { Self.checkProtocol(scope.reading) }
    }

    /// A different protocol in the variables implies a different collector port, so it is an error.
    private static func checkProtocol(_ reading: ConfigParser) {
        guard let (name, value) = reading.openTelemetry.first(of: OpenTelemetryVariables.protocols),
            value.lowercased() != "http/protobuf"
        else { return }
        reading.add(
            ConfigValueError(
                "\(value.quoted) is not supported",
                "write http/protobuf, and the endpoint with the collector's port for it, usually 4318"),
            key: [name], origin: .environment(name))
    }
}

extension SamplerConfiguration {
    /// The samplers with their names in the OpenTelemetry specification.
    fileprivate enum Name: String, CaseIterable {
        case alwaysOn = "always_on"
        case alwaysOff = "always_off"
        case traceIDRatio = "traceidratio"
        case parentBasedAlwaysOn = "parentbased_always_on"
        case parentBasedAlwaysOff = "parentbased_always_off"
        case parentBasedTraceIDRatio = "parentbased_traceidratio"
    }

    private static let parentPrefix = "parentbased_"

    fileprivate var name: Name {
        get {
            Name(rawValue: (isParentBased ? Self.parentPrefix : "") + root.rawValue) ?? .parentBasedTraceIDRatio
        }
        set {
            isParentBased = newValue.rawValue.hasPrefix(Self.parentPrefix)
            root = Root(rawValue: String(newValue.rawValue.trimmingPrefix(Self.parentPrefix))) ?? root
        }
    }
}

extension OTLPConfiguration: ConfigSection {
    /// `tracing.otlp`.
    static let keys: [Key<Self>] = [
        Key("endpoint", \.endpoint, .tracesEndpoint, .restart),
        Key("caFile", \.caFile, .restart) { $1.caFile = $0.optional("caFile", as: $0.pemFile(.certificate)) },
        Key("headers", \.headers, .restart) {
            $1.headers = $0.secrets("headers", as: .collectorHeader, isPair: true, \.value) ?? []
        },
        Key("queueLimit", \.queueLimit, .restart) {
            $1.queueLimit = $0.value("queueLimit", as: .integer(1...1_000_000), default: $1.queueLimit)
            // A queue that is full is sent at once.
            $1.batchLimit = min($1.batchLimit, $1.queueLimit)
        },
        Key("interval", \.interval, .wait, .restart),
    ]

    func check(_ scope: ConfigScope) {
        // A variable may be intended for the other signals of a platform.
        if scope.isSetExplicitly("caFile"), !endpoint.lowercased().hasPrefix("https:"), !scope.isInvalid("endpoint") {
            scope.report(
                "conflicts with an endpoint without TLS", "write an https:// endpoint, or leave it out", at: "caFile")
        }
        scope.reportDuplicates(in: headers.map { $0.name.lowercased() }, at: "headers")
    }
}

extension ConfigScope {
    /// Reports each repeated name of a list.
    fileprivate func reportDuplicates(in names: [String], at key: String) {
        for index in names.indices where names[..<index].contains(names[index]) {
            report("name must be unique: \(names[index])", "keep one of them", at: key, item: index)
        }
    }
}
