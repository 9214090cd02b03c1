import CloakroomConfig
import CloakroomCore
import CloakroomWire
import Crypto

/// Detects changes of files by the digests of their contents. Symbolic links are followed, so replacing a link of a
/// mounted secret is a change. Rewriting a file with the same contents is no change.
struct FileDigests: Sendable, Equatable {
    /// Digests by path; `nil` if the file does not exist or cannot be read.
    private let digests: [String: String?]

    init(of paths: some Sequence<String>) {
        digests = Dictionary(paths.map { ($0, Self.digest(of: $0)) }) { first, _ in first }
    }

    /// The first 12 hexadecimal digits of a file's SHA-256; empty if the file does not exist or cannot be read.
    func hash(of path: String?) -> String {
        path.flatMap { digests[$0] ?? nil }.map { String($0.prefix(12)) } ?? ""
    }

    /// The hash of a configuration: of its file, or of the text from standard input.
    func hash(of sources: ConfigSources) -> String {
        guard let text = sources.standardInput else { return hash(of: sources.file) }
        return String(Byte.hexString(SHA256.hash(data: text)).prefix(12))
    }

    private static func digest(of path: String) -> String? {
        guard let data = RegularFile.contents(of: path) else { return nil }
        return Byte.hexString(SHA256.hash(data: data))
    }
}

/// A configuration together with the digests of the files from which it was read.
struct ConfigFileSnapshot: Sendable, Unprintable {
    let config: LoadedConfig
    /// The digests of the files from which the configuration was read.
    let stamp: FileDigests

    /// Reads a configuration and the digests of its files.
    /// - Parameter files: The files that the configuration probably references; if complete, one read is enough.
    /// - Throws: ``ConfigDiagnostics`` with every error that could be found in one run.
    static func read(_ sources: ConfigSources, files: Set<String> = []) throws(ConfigDiagnostics) -> ConfigFileSnapshot
    {
        var files = files.union(sources.file.map { [$0] } ?? [])
        var attempts = 0
        while true {
            let before = FileDigests(of: files)
            let config = try loadConfig(sources)
            files = config.watchedFiles
            attempts += 1
            // At most 4 reads while the files keep changing; the next poll then detects the difference.
            if attempts == 4 || FileDigests(of: files) == before {
                return ConfigFileSnapshot(config: config, stamp: before)
            }
        }
    }
}

extension LoadedConfig {
    /// The files whose change triggers a reload: configuration, secrets, TLS files of upstreams and identities, key files
    /// of identities, and those of pages. TLS files of listeners are not included; the listeners monitor them.
    var watchedFiles: Set<String> {
        var files = Set(self.files)
        for tls in configuration.upstreams.compactMap(\.tls) {
            let certificate = tls.clientCertificate
            files.formUnion([tls.caFile, certificate?.certificateFile, certificate?.keyFile].compactMap(\.self))
        }
        for identity in configuration.identities {
            if case .privateKey(let key) = identity.client.authentication { files.insert(key.keyFile) }
            if let caFile = identity.caFile { files.insert(caFile) }
        }
        let pages = configuration.pages
        return files.union([pages.logo?.file, pages.style?.file].compactMap(\.self))
    }
}
