"""The English names of languages, by their codes of two letters: what dataset files ask ``langcodes`` for."""

from __future__ import annotations

from kshot.core.errors import DataError

_CODE_LETTERS = 2
_NAMES = """\
aa Afar, ab Abkhazian, ae Avestan, af Afrikaans, ak Akan, am Amharic, an Aragonese, ar Arabic, as Assamese,
av Avaric, ay Aymara, az Azerbaijani, ba Bashkir, be Belarusian, bg Bulgarian, bh Bihari languages, bi Bislama,
bm Bambara, bn Bangla, bo Tibetan, br Breton, bs Bosnian, ca Catalan, ce Chechen, ch Chamorro, co Corsican,
cr Cree, cs Czech, cu Church Slavic, cv Chuvash, cy Welsh, da Danish, de German, dv Divehi, dz Dzongkha,
ee Ewe, el Greek, en English, eo Esperanto, es Spanish, et Estonian, eu Basque, fa Persian, ff Fula,
fi Finnish, fj Fijian, fo Faroese, fr French, fy Western Frisian, ga Irish, gd Scottish Gaelic, gl Galician,
gn Guarani, gu Gujarati, gv Manx, ha Hausa, he Hebrew, hi Hindi, ho Hiri Motu, hr Croatian, ht Haitian Creole,
hu Hungarian, hy Armenian, hz Herero, ia Interlingua, id Indonesian, ie Interlingue, ig Igbo, ii Sichuan Yi,
ik Inupiaq, in Indonesian, io Ido, is Icelandic, it Italian, iu Inuktitut, iw Hebrew, ja Japanese, ji Yiddish,
jv Javanese, jw Javanese, ka Georgian, kg Kongo, ki Kikuyu, kj Kuanyama, kk Kazakh, kl Kalaallisut, km Khmer,
kn Kannada, ko Korean, kr Kanuri, ks Kashmiri, ku Kurdish, kv Komi, kw Cornish, ky Kyrgyz, la Latin,
lb Luxembourgish, lg Ganda, li Limburgish, ln Lingala, lo Lao, lt Lithuanian, lu Luba-Katanga, lv Latvian,
mg Malagasy, mh Marshallese, mi Māori, mk Macedonian, ml Malayalam, mn Mongolian, mo Moldavian, mr Marathi,
ms Malay, mt Maltese, my Burmese, na Nauru, nb Norwegian Bokmål, nd North Ndebele, ne Nepali, ng Ndonga,
nl Dutch, nn Norwegian Nynorsk, no Norwegian, nr South Ndebele, nv Navajo, ny Nyanja, oc Occitan, oj Ojibwa,
om Oromo, or Odia, os Ossetic, pa Punjabi, pi Pali, pl Polish, ps Pashto, pt Portuguese, qu Quechua,
rm Romansh, rn Rundi, ro Romanian, ru Russian, rw Kinyarwanda, sa Sanskrit, sc Sardinian, sd Sindhi,
se Northern Sami, sg Sango, sh Serbo-Croatian, si Sinhala, sk Slovak, sl Slovenian, sm Samoan, sn Shona,
so Somali, sq Albanian, sr Serbian, ss Swati, st Southern Sotho, su Sundanese, sv Swedish, sw Swahili,
ta Tamil, te Telugu, tg Tajik, th Thai, ti Tigrinya, tk Turkmen, tl Tagalog, tn Tswana, to Tongan, tr Turkish,
ts Tsonga, tt Tatar, tw Twi, ty Tahitian, ug Uyghur, uk Ukrainian, ur Urdu, uz Uzbek, ve Venda, vi Vietnamese,
vo Volapük, wa Walloon, wo Wolof, xh Xhosa, yi Yiddish, yo Yoruba, za Zhuang, zh Chinese, zu Zulu"""


class Language:
    """A language by its code, where the package ``langcodes`` is not installed; it knows the codes of two letters."""

    def __init__(self, language: str) -> None:
        self.language = language

    def language_name(self, language: str = "en") -> str:
        """Return its name in English; a code of two letters that no language has is named as ``langcodes`` does."""
        if language != "en" or len(self.language) != _CODE_LETTERS:
            raise DataError(
                f"the name of the language {self.language!r} in {language!r} needs the package 'langcodes'",
                hint="Install it: pip install langcodes language_data",
            )
        return _BY_CODE.get(self.language.lower(), f"Unknown language [{self.language}]")


_BY_CODE: dict[str, str] = dict(each.strip().split(" ", 1) for each in _NAMES.split(","))
