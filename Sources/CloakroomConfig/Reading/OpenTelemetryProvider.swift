import CloakroomCore
import Configuration

/// Lets the reader look tracing up in the variables that the OpenTelemetry specification names, as a platform sets them
/// for all of its programs. They are the weakest source: what is written for this gateway goes before them.
///
/// A variable that is set to nothing counts as one that is not set.
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

    /// The variable that decides on a key, whether its value is right or wrong; `nil` if none does.
    func variable(for path: [String]) -> String? {
        decision(on: path)?.name
    }

    /// The first of some variables that is set, and its value.
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
                // A variable may have nothing to say about this key.
                guard let content = try OpenTelemetryVariables.content(of: path, from: name, text) else { continue }
                return (name, .success(content))
            } catch {
                return (name, .failure(error))
            }
        }
        return nil
    }
}
