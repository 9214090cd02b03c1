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
