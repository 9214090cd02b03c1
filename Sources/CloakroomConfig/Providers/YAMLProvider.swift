import CloakroomCore
import Configuration

/// A configuration provider backed by a ``YAMLTree``.
///
/// Two synthetic keys extend the file: `#count` below a list is the number of its items, `#names` below a mapping lists
/// its keys.
struct YAMLProvider: StaticConfigProvider, Unprintable {
    static let count = "#count"
    static let names = "#names"

    let providerName = "configuration file"
    let tree: YAMLTree

    func value(forKey key: AbsoluteConfigKey, type: ConfigType) throws -> LookupResult {
        LookupResult(
            encodedKey: key.components.joined(separator: "."),
            value: try content(at: key.components, type: type).map { ConfigValue($0, isSecret: false) })
    }

    private func content(at path: [String], type: ConfigType) throws(ConfigValueError) -> ConfigContent? {
        switch path.last {
        case Self.count?: return try count(of: Array(path.dropLast())).map { .string(String($0)) }
        case Self.names?: return try names(in: Array(path.dropLast())).map { .stringArray($0) }
        default: break
        }
        guard let entry = tree[path] else { return nil }
        switch (type, entry.shape) {
        case (_, .empty): throw ConfigValueError("must have a value", "write one, or leave the key out")
        case (.stringArray, .list(let count)):
            return .stringArray(try (0..<count).map { index throws(ConfigValueError) in try item(index, of: path) })
        case (.stringArray, .scalar(let text)):
            // Secrets are not printed in messages.
            let items = SecretFilesProvider.isSecret(path) ? ["one", "another"] : text.split { " ,;|".contains($0) }
            throw ConfigValueError("must be a list", "write [\(items.map(\.escaped).joined(separator: ", "))]")
        case (.stringArray, .section): throw ConfigValueError("must be a list, not keys", "write [one, another]")
        case (_, .scalar(let text)): return .string(text)
        case (_, .list): throw ConfigValueError("must be one value, not a list", "write a single value")
        case (_, .section): throw ConfigValueError("must be one value, not keys", "write a single value")
        }
    }

    private func item(_ index: Int, of path: [String]) throws(ConfigValueError) -> String {
        guard case .scalar(let text)? = tree[path + [String(index)]]?.shape else {
            throw ConfigValueError("item \(index + 1) of the list must be a single value", "write [one, another]")
        }
        return text
    }

    private func count(of path: [String]) throws(ConfigValueError) -> Int? {
        switch tree[path]?.shape {
        case nil, .empty?: return nil
        case .list(let count)?: return count
        case .scalar?, .section?:
            throw ConfigValueError("must be a list", "begin each item with \"- \" below the key")
        }
    }

    private func names(in path: [String]) throws(ConfigValueError) -> [String]? {
        switch tree[path]?.shape {
        case nil, .empty?: return nil
        case .section(let names)?: return names
        case .scalar?, .list?: throw ConfigValueError("must be a mapping", "write a name and a colon for each item")
        }
    }
}
