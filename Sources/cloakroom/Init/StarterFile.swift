import ArgumentParser
import CloakroomConfig
import CloakroomCore
import Foundation

/// The file that `cloakroom init` writes. Nothing is written unless the configuration loads without errors.
struct StarterFile {
    /// `-` is standard output.
    let path: String
    let replaces: Bool

    private var isStandardOutput: Bool { path == "-" }

    /// - Throws: `ValidationError` if the file exists and must not be replaced.
    func checkAbsence() throws {
        guard !isStandardOutput, !replaces, FileManager.default.fileExists(atPath: path) else { return }
        throw Self.exists(path)
    }

    /// Checks the configuration and writes it, readable by its owner only, or with the permissions of the file it replaces: that
    /// of a service has another reader.
    func write(_ starter: StarterConfiguration) throws {
        let text = Data(starter.yaml.utf8)
        // Nothing else is written then: the file system of a container may be read-only.
        guard !isStandardOutput else {
            _ = try check(starter)
            return try FileHandle.standardOutput.write(contentsOf: text)
        }
        // In the same folder, because relative paths in the file start there, and so that it can be renamed.
        let folder = Self.folder(of: path)
        let draft = folder + "/.cloakroom-\(UUID().uuidString).yaml"
        let descriptor = open(draft, O_WRONLY | O_CREAT | O_EXCL, 0o600)
        guard descriptor >= 0 else { throw Self.failure("cannot write to \(folder)") }
        defer { unlink(draft) }
        let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        var replaced = stat()
        if replaces, stat(path, &replaced) == 0 {
            _ = fchown(descriptor, replaced.st_uid, replaced.st_gid)
            _ = fchmod(descriptor, replaced.st_mode & 0o777)
        }
        try handle.write(contentsOf: text)
        try handle.synchronize()
        let report = try check(starter)
        if replaces {
            guard rename(draft, path) == 0 else { throw Self.failure("cannot write \(path)") }
        } else {
            try Self.publish(draft, text, as: path)
        }
        try CommandOutput.print(report)
    }

    /// Gives the draft its name, unless the file exists. A file system without hard links, such as FAT, gets a second file
    /// with the same text.
    /// - Parameter makeLink: Replaces `link` in tests; the result is that of the system call, with `errno`.
    static func publish(
        _ draft: String, _ text: Data, as path: String,
        makeLink: (_ draft: String, _ path: String) -> Int32 = { link($0, $1) }
    ) throws {
        // Fails if the file exists, in contrast to a rename.
        if makeLink(draft, path) == 0 { return }
        guard [EPERM, EOPNOTSUPP, ENOSYS].contains(errno) else {
            throw errno == EEXIST ? exists(path) : failure("cannot write \(path)")
        }
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL, 0o600)
        guard descriptor >= 0 else { throw errno == EEXIST ? exists(path) : failure("cannot write \(path)") }
        let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        do {
            try handle.write(contentsOf: text)
            try handle.synchronize()
        } catch {
            unlink(path)
            throw error
        }
    }

    /// Loads the configuration as the gateway would. Files with secrets need not exist yet.
    /// - Returns: What to do next.
    private func check(_ starter: StarterConfiguration) throws -> String {
        if let problem = starter.problem { throw Self.failure(problem, explains: false) }
        let routes = try starter.load().configuration.routes.count
        var next = ["cloakroom check-config --config \(path)"]
        switch starter.apiToken {
        case .file(let file): next.insert("write the API token to \(file), if it does not contain it", at: 0)
        case .environment: next.insert("set \(StarterConfiguration.apiTokenVariable)", at: 0)
        case nil: break
        }
        if let files = starter.files, case let root = Self.resolved(files, in: Self.folder(of: path)),
            (try? FileManager.default.contentsOfDirectory(atPath: root)) == nil
        {
            next.insert("build the app: there is no folder \(root)", at: 0)
        }
        if starter.trial == .failed { next.insert("change in \(path) what the steps above name", at: 0) }
        if starter.issuer != nil {
            next.insert("register \(starter.origin)/auth/callback as a redirect URI at the provider", at: 0)
            next.insert("write the client secret to \(starter.secretFile), if it does not contain it", at: 1)
            next.append("cloakroom doctor --config \(path)")
        } else if starter.signIn != nil {
            next.append("cloakroom doctor --config \(path) --user NAME")
        }
        next.append("cloakroom serve --config \(path)")
        // A login has to begin at the host where the provider sends the browser back.
        if starter.issuer != nil || starter.files != nil { next.append("open \(starter.origin)") }
        return "\(path): written (\(routes) \(routes == 1 ? "route" : "routes"))\nnext:\n"
            + next.map { "  \($0)\n" }.joined()
    }

    /// A path in a configuration in a folder.
    static func resolved(_ path: String, in folder: String) -> String {
        path.hasPrefix("/") || folder == "." ? path : "\(folder)/\(path)"
    }

    static func folder(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/") else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }

    private static func exists(_ path: String) -> ValidationError {
        ValidationError("\(path) exists (write --force to replace it, or another --output)")
    }

    /// Prints an error, with the cause in `errno`.
    private static func failure(_ text: String, explains: Bool = true) -> ExitCode {
        let cause = explains ? ": \(SystemError.text(errno))" : ""
        try? FileHandle.standardError.write(contentsOf: Data("cloakroom: \(text)\(cause)\n".utf8))
        return ExitCode(1)
    }
}
