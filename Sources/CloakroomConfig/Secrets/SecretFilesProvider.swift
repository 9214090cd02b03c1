import CloakroomCore
import Configuration
import FoundationEssentials

/// Gives the values of secret keys from the files that their `…File` twins name.
///
/// Symbolic links are followed: mounted secrets are links.
struct SecretFilesProvider: StaticConfigProvider, Unprintable {
    let providerName = "secret files"
    /// Reads the twins: everything but secret files.
    let reader: ConfigReader
    /// What relative paths are relative to.
    let directory: String
    /// Whether no file is opened, and every secret in a file counts as a valid one; see ``ConfigSources/isOffline``.
    var isOffline = false

    /// What stands for a secret whose file is not opened. It meets the rules of every key.
    private static let offlineSecret = "not-read-because-the-check-is-offline"

    /// The key that names a secret's file.
    static func fileKey(of name: String) -> String { name + "File" }

    private static let secrets: Set<[String]> = [
        ["admin", "token"], ["session", "secrets"], ["session", "valkey", "password"],
        ["session", "valkey", "sentinelPassword"], ["tracing", "otlp", "headers"],
    ]

    /// Whether a key is a secret that may stand in a file.
    static func isSecret(_ path: [String]) -> Bool {
        path.suffix(2) == ["apiToken", "value"] || secrets.contains(path)
    }

    /// Whether an environment variable holds a secret.
    static func isSecret(variable name: String) -> Bool {
        ["_VALUE", "_TOKEN", "_SECRETS", "_PASSWORD", "_HEADERS"].contains(where: name.hasSuffix)
    }

    func value(forKey key: AbsoluteConfigKey, type: ConfigType) throws -> LookupResult {
        guard Self.isSecret(key.components), let name = key.components.last else {
            return LookupResult(encodedKey: key.description, value: nil)
        }
        let twin = ConfigKey(key.components.dropLast() + [Self.fileKey(of: name)])
        guard let path = reader.string(forKey: twin) else {
            return LookupResult(encodedKey: key.description, value: nil)
        }
        let file = ConfigRelativePath.resolve(path, in: directory)
        guard !isOffline else {
            let secret = name == "headers" ? "x-offline=\(Self.offlineSecret)" : Self.offlineSecret
            return LookupResult(
                encodedKey: file,
                value: ConfigValue(type == .stringArray ? .stringArray([secret]) : .string(secret), isSecret: true))
        }
        guard FileManager.default.fileExists(atPath: file) else { throw SecretFile.fileNotFound(path, at: file) }
        let content: ConfigContent =
            type == .stringArray
            ? .stringArray(try SecretFile.readLines(file)) : .string(try SecretFile.read(file))
        return LookupResult(encodedKey: file, value: ConfigValue(content, isSecret: true))
    }
}
