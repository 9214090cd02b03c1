import CloakroomCore
import Configuration
import FoundationEssentials

/// Provides secret values from the files named by their `…File` keys.
///
/// Symbolic links are followed because mounted secrets are links.
struct SecretFilesProvider: StaticConfigProvider, Unprintable {
    let providerName = "secret files"
    /// Reads the `…File` keys: all layers except secret files.
    let reader: ConfigReader
    /// The base of relative paths.
    let directory: String
    /// Whether no file is opened and every secret file counts as valid; see ``ConfigSources/isOffline``.
    var isOffline = false

    /// The substitute for a secret whose file is not opened. It is valid for every key.
    private static let offlineSecret = "not-read-because-the-check-is-offline"

    /// The key for the file of a secret.
    static func fileKey(of name: String) -> String { name + "File" }

    private static let secrets: Set<[String]> = [
        ["admin", "token"], ["session", "secrets"], ["session", "valkey", "password"],
        ["session", "valkey", "sentinelPassword"], ["tracing", "otlp", "headers"],
    ]

    /// Whether a key is a secret that can be given in a file.
    static func isSecret(_ path: [String]) -> Bool {
        path.suffix(2) == ["apiToken", "value"] || secrets.contains(path)
    }

    /// Whether an environment variable contains a secret.
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
