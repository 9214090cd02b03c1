import CloakroomCore

extension ConfigScope {
    /// A secret, which stands in the key itself or in the file that its twin names; not in both within one layer.
    func secret(_ name: String, as format: ValueFormat<Secret>, isRequired: Bool = true) -> Secret? {
        let twin = SecretFilesProvider.twin(of: name)
        _ = optional(twin, as: .text)
        let value = optional(name, as: format, isSecret: true)
        complainIfDoubled(name, twin)
        if isRequired, isPresent, !isGiven(name), !isGiven(twin) { reading.noteMissing(path + [name]) }
        return value
    }

    /// A list of secrets, which stands in the key itself or in the file that its twin names, one a line.
    func secrets(_ name: String, as format: ValueFormat<Secret>) -> [Secret]? {
        let twin = SecretFilesProvider.twin(of: name)
        _ = optional(twin, as: .text)
        // How a secret is rendered does not show it.
        let values = list(name, as: format)
        complainIfDoubled(name, twin)
        return values
    }

    private func complainIfDoubled(_ name: String, _ twin: String) {
        for layer in [Layer.flags, .environment, .file] {
            guard reading.isGiven(path + [name], in: layer), reading.isGiven(path + [twin], in: layer) else { continue }
            let origin: Origin? =
                switch layer {
                case .flags: .flag
                case .environment: .environment(reading.variable(path + [twin]))
                case .secretFiles, .file: reading.tree[path + [twin]].map { .file($0.value) }
                }
            reading.add(
                Mistake("stands beside \(name)", "keep one of the two"), key: path + [twin], origin: origin ?? .fallback
            )
        }
    }
}
