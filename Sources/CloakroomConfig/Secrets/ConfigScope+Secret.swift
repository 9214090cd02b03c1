import CloakroomCore

extension ConfigScope {
    /// A secret, which stands in the key itself or in the file that its twin names; not in both within one layer.
    func secret(_ name: String, as format: ValueFormat<Secret>, isRequired: Bool = true) -> Secret? {
        let twin = SecretFilesProvider.twin(of: name)
        // In the order in which people read of them.
        reading.document(path + [name]) { $0.isSecret = true }
        _ = optional(twin, as: secretFilePath)
        let value = optional(name, as: format, isSecret: true)
        reading.document(path + [twin]) { $0.expectation = Self.secretFile }
        complainIfDoubled(name, twin)
        if isRequired, isPresent, !isGiven(name), !isGiven(twin) { reading.noteMissing(path + [name]) }
        return value
    }

    /// A list of secrets, which stands in the key itself or in the file that its twin names, one a line.
    func secrets<Value>(_ name: String, as format: ValueFormat<Value>) -> [Value]? {
        let twin = SecretFilesProvider.twin(of: name)
        reading.document(path + [name]) { $0.isSecret = true }
        _ = optional(twin, as: secretFilePath)
        // How a secret is rendered does not show it.
        let values = list(name, as: format)
        reading.document(path + [twin]) { $0.expectation = Self.secretFile + ", one a line" }
        complainIfDoubled(name, twin)
        return values
    }

    private var secretFilePath: ValueFormat<String> {
        let folder = reading.folder
        return ValueFormat(
            "text", parse: ValueFormat<String>.text.parse, render: { SecretFile.shown($0, in: folder) })
    }

    private static let secretFile = "path of a file that holds the secret"

    private func complainIfDoubled(_ name: String, _ twin: String) {
        for layer in [Layer.flags, .environment, .file] {
            guard reading.isGiven(path + [name], in: layer), reading.isGiven(path + [twin], in: layer) else { continue }
            let origin: Origin? =
                switch layer {
                case .flags: .flag
                case .environment: .environment(reading.variable(path + [twin]))
                case .secretFiles, .openTelemetry, .file: reading.tree[path + [twin]].map { .file($0.value) }
                }
            reading.add(
                Mistake("stands beside \(name)", "keep one of the two"), key: path + [twin], origin: origin ?? .fallback
            )
        }
    }
}
