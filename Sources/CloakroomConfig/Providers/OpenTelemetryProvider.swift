import CloakroomCore
import Configuration

/// Provides `tracing` values from the variables of the OpenTelemetry specification, which platforms set for all
/// programs. They are the weakest source: every source of the gateway overrides them.
///
/// An empty variable counts as unset.
struct OpenTelemetryProvider: StaticConfigProvider, Unprintable {
    let providerName = "OpenTelemetry variables"
    private let variables: [String: String]

    init(_ environment: [String: String]) {
        variables = environment.filter { $0.key.hasPrefix(EnvironmentVariableNames.openTelemetryPrefix) }
            .mapValues { KeyValueList.trimmed($0[...]) }
            .filter { !$0.value.isEmpty }
    }

    func value(forKey key: AbsoluteConfigKey, type: ConfigType) throws -> LookupResult {
        guard let (name, content) = decision(on: key.components) else {
            return LookupResult(encodedKey: key.description, value: nil)
        }
        return LookupResult(encodedKey: name, value: ConfigValue(try content.get(), isSecret: true))
    }

    /// The variable that determines a key, valid or not; `nil` if none does.
    func variable(for path: [String]) -> String? {
        decision(on: path)?.name
    }

    /// The first of these variables that is set, with its value.
    func first(of names: [String]) -> (name: String, value: String)? {
        for name in names {
            if let value = variables[name] { return (name, value) }
        }
        return nil
    }

    private func decision(on path: [String]) -> (name: String, content: Result<ConfigContent, ConfigValueError>)? {
        for name in OpenTelemetryVariables.names[path] ?? [] {
            guard let text = variables[name] else { continue }
            do throws(ConfigValueError) {
                // A variable need not define a value for this key.
                guard let content = try OpenTelemetryVariables.content(of: path, from: name, text) else { continue }
                return (name, .success(content))
            } catch {
                return (name, .failure(error))
            }
        }
        return nil
    }
}

/// The OpenTelemetry variables of each key, and the conversion of their values.
enum OpenTelemetryVariables {
    /// The variables of each key, strongest first.
    static let names: [[String]: [String]] = [
        ["tracing", "exporter"]: ["OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER"] + endpoints,
        ["tracing", "sampler"]: [sampler],
        ["tracing", "ratio"]: ["OTEL_TRACES_SAMPLER_ARG"],
        ["tracing", "serviceName"]: ["OTEL_SERVICE_NAME", resourceAttributes],
        ["tracing", "resourceAttributes"]: [resourceAttributes],
        ["tracing", "otlp", "endpoint"]: endpoints,
        ["tracing", "otlp", "caFile"]: ["OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE"],
        ["tracing", "otlp", "headers"]: ["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"],
        ["tracing", "otlp", "queueLimit"]: ["OTEL_BSP_MAX_QUEUE_SIZE"],
        ["tracing", "otlp", "interval"]: ["OTEL_BSP_SCHEDULE_DELAY"],
    ]

    static let sampler = "OTEL_TRACES_SAMPLER"
    /// The variables for the transport protocol. One protocol is supported.
    static let protocols = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"]
    private static let resourceAttributes = "OTEL_RESOURCE_ATTRIBUTES"
    private static let endpoints = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"]

    /// The value of a variable in the notation of the key; `nil` if it defines none.
    static func content(of path: [String], from name: String, _ text: String) throws(ConfigValueError) -> ConfigContent?
    {
        switch path.last {
        case "exporter": return try exporter(name, text).map { .string($0) }
        case "serviceName" where name == resourceAttributes:
            return try KeyValueList.parse(text, areNamesEncoded: true)
                .last { $0.name == ResourceAttributeNames.service }.map { .string($0.value) }
        case "resourceAttributes":
            let attributes = try KeyValueList.parse(text, areNamesEncoded: true)
                .filter { $0.name != ResourceAttributeNames.service }
            return .stringArray(attributes.map { "\($0.name)=\($0.value)" })
        case "headers":
            return .stringArray(
                try KeyValueList.parse(text, areNamesEncoded: false).map { "\($0.name)=\($0.value)" })
        case "endpoint": return .string(try endpoint(name, text))
        case "interval": return .string(try milliseconds(text))
        default: return .string(text)
        }
    }

    private static func exporter(_ name: String, _ text: String) throws(ConfigValueError) -> String? {
        switch name {
        case "OTEL_SDK_DISABLED":
            switch text.lowercased() {
            case "true": return "none"
            case "false": return nil
            default:
                throw ConfigValueError("must be true or false, not \(text.quoted)", "write true or false")
            }
        case "OTEL_TRACES_EXPORTER":
            switch text.lowercased() {
            case "otlp", "none": return text.lowercased()
            case "console", "logging": return "log"
            default:
                throw ConfigValueError(
                    "must be a supported exporter, not \(text.quoted)", "write otlp, console or none")
            }
        default: return "otlp"
        }
    }

    /// The endpoint for all signals gets the path of traces appended; the endpoint for traces is used unchanged.
    private static func endpoint(_ name: String, _ text: String) throws(ConfigValueError) -> String {
        let url = try OTLPEndpointURL(text)
        guard name == endpoints.last else { return url.path.isEmpty ? url.text + "/" : url.text }
        return url.text + (url.path.hasSuffix("/") ? "" : "/") + "v1/traces"
    }

    private static func milliseconds(_ text: String) throws(ConfigValueError) -> String {
        let isNumber = text.utf8.allSatisfy { (0x30...0x39).contains($0) }
        guard isNumber, let number = Int(text), (1...86_400_000).contains(number) else {
            throw ConfigValueError(
                "must be a time in milliseconds, not \(text.quoted)", "write 1 to 86400000, without a unit")
        }
        return "\(number)ms"
    }
}

/// Resource attribute names with a special meaning.
enum ResourceAttributeNames {
    /// Configured by `tracing.serviceName`.
    static let service = "service.name"
}
