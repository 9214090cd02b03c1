import CloakroomCore
import Configuration

/// Provides the variables that begin with `CLOAKROOM_`. Without any it makes no names of variables for the keys, which took
/// more than half of the time of loading a configuration.
struct EnvironmentProvider: StaticConfigProvider, Unprintable {
    let providerName = "environment"
    private let variables: KeyMappingProvider<EnvironmentVariablesProvider>?

    init(_ environment: [String: String]) {
        guard environment.keys.contains(where: { $0.hasPrefix(EnvironmentVariableNames.variablePrefix) }) else {
            variables = nil
            return
        }
        variables = EnvironmentVariablesProvider(
            environmentVariables: environment,
            secretsSpecifier: .dynamic { name, _ in SecretFilesProvider.isSecret(variable: name) }
        ).prefixKeys(with: ConfigKey([EnvironmentVariableNames.prefix]))
    }

    /// Whether no variable begins with the prefix.
    var isEmpty: Bool { variables == nil }

    func value(forKey key: AbsoluteConfigKey, type: ConfigType) throws -> LookupResult {
        try variables?.value(forKey: key, type: type) ?? LookupResult(encodedKey: key.description, value: nil)
    }
}
