import CloakroomConfig
import CloakroomCore
import Crypto
import FoundationEssentials

/// What tells whether files still hold what was read: digests of their contents. Links are followed to their end, so that
/// a mounted secret that is swapped by swapping a link is another one. A file that is written anew with what it held is
/// the same.
struct FileDigests: Sendable, Equatable {
    /// By path; `nil` where there is no such file, or it cannot be read.
    private let digests: [String: String?]

    init(of paths: some Sequence<String>) {
        digests = Dictionary(paths.map { ($0, Self.digest(of: $0)) }) { first, _ in first }
    }

    /// The first 12 hexadecimal digits of a file's SHA-256; empty if there is no such file.
    func hash(of path: String?) -> String {
        path.flatMap { digests[$0] ?? nil }.map { String($0.prefix(12)) } ?? ""
    }

    private static func digest(of path: String) -> String? {
        guard let data = FileManager.default.contents(atPath: path) else { return nil }
        return SHA256.hash(data: data).map { byte in
            let digits = String(byte, radix: 16)
            return digits.count == 1 ? "0" + digits : digits
        }.joined()
    }
}

/// A configuration as it stood in its files at one moment.
struct ConfigFileSnapshot: Sendable, Unprintable {
    let config: LoadedConfig
    /// The files that it was made from, as they were then.
    let stamp: FileDigests

    /// Reads a configuration and notes what its files held.
    /// - Parameter files: Files that are likely to be among its own, which saves reading it twice.
    /// - Throws: ``ConfigDiagnostics`` with every mistake that could be found in one run.
    static func read(_ sources: ConfigSources, files: Set<String> = []) throws(ConfigDiagnostics) -> ConfigFileSnapshot
    {
        var files = files.union(sources.file.map { [$0] } ?? [])
        var attempts = 0
        while true {
            let before = FileDigests(of: files)
            let config = try loadConfig(sources)
            files = config.watchedFiles
            attempts += 1
            // While somebody keeps writing, what was read is handed on as it is: the next look finds something else.
            if attempts == 4 || FileDigests(of: files) == before {
                return ConfigFileSnapshot(config: config, stamp: before)
            }
        }
    }
}

extension LoadedConfig {
    /// The files whose change is a change of the configuration: its own, those of its secrets, and those for TLS with
    /// upstreams. Those of listeners are looked after where they are used.
    var watchedFiles: Set<String> {
        var files = Set(self.files)
        for tls in configuration.upstreams.compactMap(\.tls) {
            let certificate = tls.clientCertificate
            files.formUnion([tls.caFile, certificate?.certificateFile, certificate?.keyFile].compactMap(\.self))
        }
        return files
    }
}
