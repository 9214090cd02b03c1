import CloakroomCore

extension TracingConfiguration {
    /// `tracing`. The weakest source of each key is its variables of the OpenTelemetry specification:
    /// ``OpenTelemetryVariables``.
    ///
    /// - `exporter`: `none`, `log` or `otlp`. Default `otlp` if an endpoint is set, otherwise `none`.
    /// - `sampler`: `always_on`, `always_off`, `traceidratio`, or one of these prefixed with `parentbased_`; default
    ///   `parentbased_traceidratio`.
    /// - `ratio`: 0 to 1; default 0.01.
    /// - `serviceName`: default `cloakroom`.
    /// - `resourceAttributes`: a list of `name=value`; default none.
    /// - `otlp`: ``OTLPConfiguration``.
    init(from scope: ConfigScope) {
        let defaults = TracingConfiguration()
        let otlp = scope.sectionWithDefaults("otlp")
        let fallback = otlp.isSetExplicitly("endpoint") ? Exporter.otlp : defaults.exporter
        let exporter = scope.value("exporter", as: .choice(), default: fallback)
        let sampler = SamplerConfiguration(from: scope)
        let serviceName = scope.value("serviceName", as: .serviceName, default: defaults.serviceName)
        let attributes = scope.list("resourceAttributes", as: .resourceAttribute) ?? []
        scope.reportDuplicates(in: attributes.map(\.name), at: "resourceAttributes")
        self.init(
            exporter: exporter, sampler: sampler, serviceName: serviceName, resourceAttributes: attributes,
            otlp: OTLPConfiguration(from: otlp))
        if exporter == .otlp, !otlp.isSetExplicitly("endpoint") { Self.checkProtocol(otlp.reading) }
    }

    /// A different protocol in the variables implies a different collector port, so it is an error.
    private static func checkProtocol(_ reading: ConfigParser) {
        guard let (name, value) = reading.openTelemetry.first(of: OpenTelemetryVariables.protocols),
            value.lowercased() != "http/protobuf"
        else { return }
        reading.add(
            ConfigValueError(
                "\(DiagnosticText.quoted(value)) is not supported",
                "write http/protobuf, and the endpoint with the collector's port for it, usually 4318"),
            key: [name], origin: .environment(name))
    }
}

extension SamplerConfiguration {
    /// The samplers with their names in the OpenTelemetry specification.
    private enum Name: String, CaseIterable {
        case alwaysOn = "always_on"
        case alwaysOff = "always_off"
        case traceIDRatio = "traceidratio"
        case parentBasedAlwaysOn = "parentbased_always_on"
        case parentBasedAlwaysOff = "parentbased_always_off"
        case parentBasedTraceIDRatio = "parentbased_traceidratio"

        var root: Root {
            switch self {
            case .alwaysOn, .parentBasedAlwaysOn: .alwaysOn
            case .alwaysOff, .parentBasedAlwaysOff: .alwaysOff
            case .traceIDRatio, .parentBasedTraceIDRatio: .traceIDRatio
            }
        }

        var isParentBased: Bool {
            switch self {
            case .alwaysOn, .alwaysOff, .traceIDRatio: false
            case .parentBasedAlwaysOn, .parentBasedAlwaysOff, .parentBasedTraceIDRatio: true
            }
        }
    }

    /// `tracing.sampler` and `tracing.ratio`.
    fileprivate init(from scope: ConfigScope) {
        let name = scope.value("sampler", as: .choice(), default: Name.parentBasedTraceIDRatio)
        // If the sampler is set by its variable without an argument, the specification's default ratio 1 applies.
        let isRequested = scope.reading.origin(scope.path + ["sampler"]) == .environment(OpenTelemetryVariables.sampler)
        self.init(
            root: name.root,
            ratio: scope.value("ratio", as: .fraction(0...1), default: isRequested ? 1 : SamplerConfiguration().ratio),
            isParentBased: name.isParentBased)
    }
}

extension OTLPConfiguration {
    /// `tracing.otlp`.
    ///
    /// - `endpoint`: a URL with `http` or `https`, a host and a path; default `http://localhost:4318/v1/traces`.
    /// - `caFile`: PEM file with the trusted certificates for an `https` collector; default: those of the system.
    /// - `headers` or `headersFile`: a list of `name=value`; default none.
    /// - `timeout`: 1ms to 1d; default 10s.
    /// - `queueLimit`: 1 to 1,000,000; default 2,048.
    /// - `batchLimit`: 1 to `queueLimit`; default 512, or `queueLimit` if that is less.
    /// - `interval`: 1ms to 1d; default 5s.
    fileprivate init(from scope: ConfigScope) {
        let defaults = OTLPConfiguration()
        let endpoint = scope.value("endpoint", as: .tracesEndpoint, default: defaults.endpoint)
        let caFile = scope.optional("caFile", as: scope.pemFile(.certificate))
        // A variable may be intended for the other signals of a platform.
        if scope.isSetExplicitly("caFile"), !endpoint.lowercased().hasPrefix("https:"), !scope.isInvalid("endpoint") {
            scope.report(
                ConfigValueError(
                    "conflicts with an endpoint without TLS", "write an https:// endpoint, or leave it out"),
                at: "caFile")
        }
        let headers = scope.secrets("headers", as: .collectorHeader, isPair: true, \.value) ?? []
        scope.reportDuplicates(in: headers.map { $0.name.lowercased() }, at: "headers")
        let timeout = scope.value("timeout", as: .wait, default: defaults.timeout)
        let queueLimit = scope.value("queueLimit", as: .integer(1...1_000_000), default: defaults.queueLimit)
        let batchLimit = scope.value(
            "batchLimit", as: .integer(1...1_000_000), default: min(defaults.batchLimit, queueLimit))
        if batchLimit > queueLimit, !scope.isInvalid("queueLimit"), !scope.isInvalid("batchLimit") {
            scope.report(
                ConfigValueError(
                    "must be at most queueLimit \(queueLimit), not \(batchLimit)",
                    "make it \(queueLimit) or less, or raise queueLimit"), at: "batchLimit",
                becauseOf: [scope.path + ["queueLimit"]])
        }
        self.init(
            endpoint: endpoint, caFile: caFile, headers: headers, timeout: timeout, queueLimit: queueLimit,
            batchLimit: batchLimit, interval: scope.value("interval", as: .wait, default: defaults.interval))
    }
}

extension ConfigScope {
    /// Reports each repeated name of a list.
    fileprivate func reportDuplicates(in names: [String], at key: String) {
        for index in names.indices where names[..<index].contains(names[index]) {
            report(
                ConfigValueError("name must be unique: \(names[index])", "keep one of them"), item: index, of: key)
        }
    }
}
