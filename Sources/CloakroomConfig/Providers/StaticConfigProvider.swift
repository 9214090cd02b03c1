import CloakroomCore
import Configuration

/// A provider with immutable values: a reload creates a new one.
///
/// Folder `Providers/`: one provider per source of values: flags, the file, secret files, OpenTelemetry variables.
protocol StaticConfigProvider: ConfigProvider, ConfigSnapshot {}

extension StaticConfigProvider {
    func fetchValue(forKey key: AbsoluteConfigKey, type: ConfigType) async throws -> LookupResult {
        try value(forKey: key, type: type)
    }

    nonisolated(nonsending) func watchValue<Return: ~Copyable>(
        forKey key: AbsoluteConfigKey, type: ConfigType,
        updatesHandler:
            nonisolated(nonsending) (
                ConfigUpdatesAsyncSequence<Result<LookupResult, any Error>, Never>
            ) async throws -> Return
    ) async throws -> Return {
        try await watchValueFromValue(forKey: key, type: type, updatesHandler: updatesHandler)
    }

    func snapshot() -> any ConfigSnapshot { self }

    nonisolated(nonsending) func watchSnapshot<Return: ~Copyable>(
        updatesHandler:
            nonisolated(nonsending) (
                ConfigUpdatesAsyncSequence<any ConfigSnapshot, Never>
            ) async throws -> Return
    ) async throws -> Return {
        try await watchSnapshotFromSnapshot(updatesHandler: updatesHandler)
    }
}

/// Provides the values of `--set key=value` flags. Lists are separated by commas. The last flag for a key wins.
struct OverrideProvider: StaticConfigProvider, Unprintable {
    let providerName = "flags"
    let values: [[String]: String]

    init(_ overrides: [(key: String, value: String)]) {
        var values: [[String]: String] = [:]
        for (key, value) in overrides { values[Self.path(key)] = value }
        self.values = values
    }

    static func path(_ key: String) -> [String] {
        key.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
    }

    func value(forKey key: AbsoluteConfigKey, type: ConfigType) throws -> LookupResult {
        let content = values[key.components].map { text -> ConfigContent in
            guard type == .stringArray else { return .string(text) }
            let items = text.split(separator: ",", omittingEmptySubsequences: false)
            return .stringArray(items.map { String($0.trimmingPrefix(while: \.isWhitespace)) })
        }
        return LookupResult(
            encodedKey: key.components.joined(separator: "."), value: content.map { ConfigValue($0, isSecret: false) })
    }
}
